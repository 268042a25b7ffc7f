"""Indices that count from the end: traced ones, `A[-1 - i]`, that are negative wherever the loops stand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.ir.tile_program import Launch, Loop
from tilelang.ir.values import as_int

_Bounds = tuple[float, float]  # of an integer; infinite where nothing is known
_ANY: _Bounds = (float("-inf"), float("inf"))


def surely_negative(index: ir.Expr, loops: Iterable[Loop], launch: Launch | None) -> bool:
    """Whether `index` is below 0 for all values of the variables of `loops` and `launch`.

    A variable with one value only, that of a grid with a single block, proves nothing: `A[bx - 1]` means the
    block before.
    """
    if not isinstance(index, X.Sub | X.Add | X.Mul):
        return False
    ranges = [r for loop in loops for r in zip(loop.vars, loop.mins, loop.extents, strict=True)]
    if launch is not None:
        ranges += [(v, 0, e) for v, e in zip(launch.thread_vars, launch.threads or (), strict=False)]
        ranges += [(v, 0, e) for v, e in zip(launch.block_vars, launch.grid, strict=True)]
    known = {}
    for var, first, extent in ranges:
        low, count = as_int(first), as_int(extent)
        if low is not None:
            known[var] = (low, low + count - 1 if count is not None and count > 1 else float("inf"))
    return _bounds(index, known)[1] < 0


def _bounds(value: Any, known: dict[ir.Var, _Bounds]) -> _Bounds:
    number = as_int(value)
    if number is not None:
        return number, number
    if isinstance(value, ir.Var):
        return known.get(value, _ANY)
    if not isinstance(value, X.Sub | X.Add | X.Mul):
        return _ANY
    (a, b), (c, d) = _bounds(value.a, known), _bounds(value.b, known)
    if isinstance(value, X.Add):
        return a + c, b + d
    if isinstance(value, X.Sub):
        return a - d, b - c
    ends = [0.0 if 0 in (x, y) else x * y for x in (a, b) for y in (c, d)]  # 0 * inf is nan
    return min(ends), max(ends)
