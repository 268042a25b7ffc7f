"""T.atomic_add and relatives on tiles, as a Parallel loop of element updates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvm import ir, sym
from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.ir.simplify import simplify
from tilelang.ops.atomic import Atomic, AtomicTile
from tilelang.passes.parallel_loop import nested_parallel, parallel_loop
from tilelang.passes.walk import constant, index, substitute, uses
from tilelang.targets.simt.ops.copy import OP, loop_names, place


def one_by_one(loop: X.For) -> X.For:
    """`for j: atomic(dst[2 j], dst[2 j + 1])` as a loop over twice as many single elements.

    Then every element is owned by whoever holds what is added, and neighbours are joined again by the loop's
    layout. The loop as it is where it does anything else.
    """
    region = parallel_loop(loop)
    inner, extent = region.vars[-1], region.extents[-1]
    if not isinstance(region.body, X.Evaluate) or not tile_ops.is_call(region.body.value, tile_ops.ATOMIC):
        return loop
    op = Atomic.read(region.body.value)
    lanes = len(op.values)
    loads = [v.value if isinstance(v, X.Cast) else v for v in op.values]
    if lanes < 2 or not all(isinstance(v, ir.TensorLoad) for v in loads):
        return loop
    if not all(_strided(e.indices, inner, lanes) for e in (op.dst, loads[0])):
        return loop
    element = X.Var(str(inner.name), inner.ty)
    analyzer = sym.Analyzer()
    start = {inner: index(0)}

    def single(load: ir.TensorLoad) -> ir.TensorLoad:
        base = substitute(load.indices[-1], start)
        return X.BufferLoad(load.source, [*load.indices[:-1], simplify(analyzer, base + element)])

    value = single(loads[0])
    dtype = str(op.dst.source.dtype)
    value = value if str(value.ty) == dtype else X.Cast(dtype, value)
    update = replace(op, dst=single(op.dst), values=(value,)).call()
    extents = [*region.extents[:-1], extent * lanes]
    loop_vars = [*region.vars[:-1], element]
    return nested_parallel(
        loop_vars, extents, X.Evaluate(update, op.span), {**region.notes, OP: f"atomic_{op.kind}"}, loop.span
    )


def _strided(indices: Any, inner: ir.Var, lanes: int) -> bool:
    """Whether the last index alone depends on `inner`, as `lanes` times it plus something."""
    *outer, last = indices
    if any(uses(i, {inner.__chandle__()}) for i in outer):
        return False
    step = sym.Analyzer().simplify(substitute(last, {inner: inner + 1}) - last)
    return constant(step) == lanes


def atomic_loop(tile: AtomicTile) -> X.For:
    """`for i, j in Parallel: atomic(dst[...], src[...])`."""
    src, dst = tile.src, tile.dst
    extents = [r.extent for r in src.region if constant(r.extent) != 1]
    loop_vars = [X.Var(name, "int32") for name in loop_names(len(extents))]
    value = X.BufferLoad(src.source, place(src, loop_vars))
    dtype = str(dst.source.dtype)
    if str(src.source.dtype) != dtype:
        value = X.Cast(dtype, value)
    element = X.BufferLoad(dst.source, place(dst, loop_vars))
    update = Atomic(element, (value,), tile.kind, tile.order, tile.span).call()
    return nested_parallel(
        loop_vars, extents, X.Evaluate(update, tile.span), {OP: f"atomic_{tile.kind}"}, tile.span
    )
