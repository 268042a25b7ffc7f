"""Fragment indices that are shifted against a parallel variable: what check and lowering decide alike.

The iteration that needs `f[i + 1]` runs on the thread that holds `f[i]`. A small tile with a halo (`f[i]`,
`f[i + 1]` and `f[i + 2]` of 66 elements) is held whole by every thread; a larger or a rotated one is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tilelang.analysis.affine import Affine, affine
from tilelang.ir.values import Value, as_int

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip

WHOLE = 96
"""Elements of a fragment that each thread may hold a copy of for the sake of shifted reads."""


@dataclass(frozen=True, eq=False)
class Around:
    """The loops around an index: the variables of T.Parallel, the extent of a variable where it is known, and
    the values (first, last) of a serial one that takes several, None for any other variable.
    """

    parallel: Sequence[ir.Var]
    extent: Callable[[ir.Var], int | None]
    serial: Callable[[ir.Var], tuple[int, int] | None]


@dataclass(frozen=True, eq=False)
class Shift:
    """An index `var + offset`, the offset from `low` to `high`; `wraps`: modulo something."""

    var: ir.Var
    wraps: bool
    low: int
    high: int


def shift(index: Value, around: Around) -> Shift | None:
    """How an index is shifted: `i + 1`, `(i + 1) % n`, `i + k`, k serial. None for `i`, moves by whole
    extents (`half + i`), and whatever is not known to be shifted.
    """
    inner = index.a if isinstance(index, X.FloorMod | X.Mod) else index
    form = affine(inner)
    if form is None:
        return None
    parallel = [v for v in form.variables if any(v.same_as(p) for p in around.parallel)]
    if len(parallel) != 1 or form.coefficient(parallel[0]) != 1:
        return None
    var = parallel[0]
    extent = around.extent(var)
    if extent is None or extent < 2:
        return None
    wraps = inner is not index
    modulus = as_int(index.b) if isinstance(index, X.FloorMod | X.Mod) else None
    if wraps and (modulus is None or extent > modulus):
        return None
    return _offset(form, var, extent, wraps, around)


def _offset(form: Affine, var: ir.Var, extent: int, wraps: bool, around: Around) -> Shift | None:
    """The shift if it is a real one: not zero, not a move by whole extents."""
    others = [v for v in form.variables if not v.same_as(var)]
    if not others and form.constant % extent == 0:
        return None
    low = high = form.constant
    for other in others:
        values = around.serial(other)
        if values is None:
            return None
        ends = sorted(form.coefficient(other) * v for v in values)
        low, high = low + ends[0], high + ends[1]
    if others and not any(form.coefficient(v) % extent for v in others):
        return None
    return Shift(var, wraps, low, high)


def read_whole(
    shape: Sequence[Value], touches: Iterable[tuple[str, Sequence[Value]]], around: Around
) -> bool:
    """Whether every thread holds a copy of a fragment of `shape`, because a loop only reads it, and so: each
    index a parallel variable, one that stays inside when shifted, or one without them; some are shifted.

    touches: mode and indices of each access of the loop.
    """
    sizes = [as_int(d) for d in shape]
    known = [n for n in sizes if n is not None]
    if len(known) < len(sizes) or math.prod(known) > WHOLE:
        return False
    shifted = False
    for mode, indices in touches:
        if mode != "read" or len(indices) != len(known):
            return False
        for index, size in zip(indices, known, strict=True):
            found = shift(index, around)
            if found is None:
                if not _in_step(index, around):
                    return False
                continue
            extent = around.extent(found.var) or 0
            if found.wraps or found.low < 0 or found.high + extent > size:
                return False
            shifted = True
    return shifted


def _in_step(index: Value, around: Around) -> bool:
    if isinstance(index, ir.Var):
        return True
    form = affine(index)
    return form is not None and not any(v.same_as(p) for v in form.variables for p in around.parallel)
