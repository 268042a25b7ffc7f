"""Elementwise tile operations -> Parallel loops.

In:  a tile function.
Out: the same with every `tl.copy`, `tl.fill` and `tl.atomic_tile` written as a loop of kind Parallel, so that
     bounds, layouts and vector widths are decided in one place for all elementwise work. What works on an
     array that each thread has for itself becomes loops that every thread runs, reductions among them.
Not: gemm and reductions of tiles, which have lowerings of their own.
"""

from __future__ import annotations

from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.ir.build import LOOP_KIND
from tilelang.ops.atomic import AtomicTile
from tilelang.ops.copy import Copy
from tilelang.ops.fill import Fill
from tilelang.ops.reduce import Reduce
from tilelang.ops.scan import Scan
from tilelang.passes.walk import constant, loop_kind, remake
from tilelang.targets.simt.ops.atomic import atomic_loop, one_by_one
from tilelang.targets.simt.ops.copy import copy_loop
from tilelang.targets.simt.ops.fill import fill_loop
from tilelang.targets.simt.ops.reduce import is_private, private_reduce
from tilelang.targets.simt.ops.scan import scan_in_shared
from tilelang.targets.simt.ops.vectorized import ELSE_UNROLLED

_PRIVATE = ("local", "local.var")  # scopes of memory that each thread has for itself
_UNROLLED = 64  # iterations of a loop over a private array that are written out


def expand_elementwise(func: X.PrimFunc) -> X.PrimFunc:
    """Apply the pass."""
    return func.with_body(_expand(func.body))


def _expand(stmt: Any) -> Any:
    if loop_kind(stmt) == "Parallel":
        stmt = one_by_one(stmt)
    if isinstance(stmt, X.Evaluate):
        if tile_ops.is_call(stmt.value, tile_ops.COPY):
            copy = Copy.read(stmt.value)
            return _by_each_thread(copy_loop(copy), copy.src.source, copy.dst.source)
        if tile_ops.is_call(stmt.value, tile_ops.FILL):
            fill = Fill.read(stmt.value)
            return _by_each_thread(fill_loop(fill), fill.dst.source)
        if tile_ops.is_call(stmt.value, tile_ops.SCAN):
            return scan_in_shared(Scan.read(stmt.value))
        if tile_ops.is_call(stmt.value, tile_ops.REDUCE):
            reduce = Reduce.read(stmt.value)
            return private_reduce(reduce) if is_private(reduce) else stmt
        if tile_ops.is_call(stmt.value, tile_ops.ATOMIC_TILE):
            return atomic_loop(AtomicTile.read(stmt.value))
        return stmt
    return remake(stmt, _expand)


def _by_each_thread(loop: X.For, *buffers: ir.Var) -> Any:
    """`loop` as one that every thread runs by itself if it works on a private array; else unchanged.

    The innermost one goes over neighbours, many of which one access may move.
    """
    if not any(b.scope() in _PRIVATE for b in buffers):
        return loop
    body = loop.body
    few = (constant(loop.extent) or _UNROLLED + 1) <= _UNROLLED
    if loop_kind(body) == "Parallel":
        kind = X.ForKind.UNROLLED if few else X.ForKind.SERIAL
        return X.For(
            loop.loop_var, loop.min, loop.extent, kind, _by_each_thread(body, *buffers), span=loop.span
        )
    notes = {LOOP_KIND: "vectorized", **({ELSE_UNROLLED: True} if few else {})}
    return X.For(
        loop.loop_var, loop.min, loop.extent, X.ForKind.VECTORIZED, body, annotations=notes, span=loop.span
    )
