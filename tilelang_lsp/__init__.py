"""The language server for TileLang kernels, and the processes that it starts."""

import os
import sys

# `python -m tilelang_lsp.server` puts the folder it is started in first on the path. That is the user's
# workspace, and a `json.py` in it would be executed in the place of Python's. While Python looks for the
# module to run, `sys.argv[0]` is "-m"; a checkout of our own sources must stay on the path.
if (
    sys.argv[:1] == ["-m"]
    and sys.path[0] in ("", os.getcwd())  # not with `-P`, which leaves it out already
    and not os.path.isdir(os.path.join(sys.path[0], "tilelang_lsp"))
):
    del sys.path[0]
