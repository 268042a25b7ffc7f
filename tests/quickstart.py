"""The kernel of examples/quickstart.py as text, without what follows it and calls it."""

from __future__ import annotations

from pathlib import Path

_EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "quickstart.py"
MODULE = _EXAMPLE.read_text(encoding="utf-8").partition("\n\ndef ref_program")[0]
KERNEL = MODULE[MODULE.index("@tilelang.jit") :]
