"""`python -m tilelang` is the `tilelang` command."""

from __future__ import annotations

import sys

from tilelang.cli.main import main

sys.exit(main())
