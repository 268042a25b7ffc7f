"""The language server over the fake compiler; run as a script by the end-to-end tests of the engine.

With the argument `nothing` the analysis process cannot be started at all.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tilelang_lsp.server import main

WORKER = (sys.executable, str(Path(__file__).with_name("fake_worker.py")))
main([], analysis_command=("/nowhere/python",) if sys.argv[1:] == ["nothing"] else WORKER)
