"""The meaning of a tile program, executed: op by op as the language defines it, before anything is lowered.

Slow, exact and strict. Floats are computed in float64 and rounded where they are stored; unwritten memory is
NaN (0x55 bytes for integers); an access outside a tile is an error. It is the oracle of the tests, and what
"run & assert" compares with where a kernel has no reference of its own.
"""

from __future__ import annotations

from tilelang.reference.errors import ReferenceFailure
from tilelang.reference.run import run

__all__ = ["ReferenceFailure", "run"]
