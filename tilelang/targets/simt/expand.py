"""Elementwise tile operations -> Parallel loops.

In:  a tile function.
Out: the same with every `tl.copy`, `tl.fill` and `tl.atomic_tile` written as a loop of kind Parallel, so that
     bounds, layouts and vector widths are decided in one place for all elementwise work.
Not: gemm and reduce, which have lowerings of their own.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.ops.atomic import AtomicTile
from tilelang.ops.copy import Copy
from tilelang.ops.fill import Fill
from tilelang.passes.walk import loop_kind, remake
from tilelang.targets.simt.ops.atomic import atomic_loop, one_by_one
from tilelang.targets.simt.ops.copy import copy_loop
from tilelang.targets.simt.ops.fill import fill_loop


def expand_elementwise(func: X.PrimFunc) -> X.PrimFunc:
    """Apply the pass."""
    return func.with_body(_expand(func.body))


def _expand(stmt: Any) -> Any:
    if loop_kind(stmt) == "Parallel":
        stmt = one_by_one(stmt)
    if isinstance(stmt, X.Evaluate):
        if tile_ops.is_call(stmt.value, tile_ops.COPY):
            return copy_loop(Copy.read(stmt.value))
        if tile_ops.is_call(stmt.value, tile_ops.FILL):
            return fill_loop(Fill.read(stmt.value))
        if tile_ops.is_call(stmt.value, tile_ops.ATOMIC_TILE):
            return atomic_loop(AtomicTile.read(stmt.value))
        return stmt
    return remake(stmt, _expand)
