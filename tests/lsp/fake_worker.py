"""The analysis process with the fake compiler in it; run as a script by the tests of the engine."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.lsp.fake_compiler import FakeCompiler
from tilelang_lsp.engine.worker import serve

serve(FakeCompiler)
