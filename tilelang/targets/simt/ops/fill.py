"""T.fill and T.clear as an elementwise loop over the tile."""

from __future__ import annotations

from tvm import tirx as X

from tilelang.ops.fill import Fill
from tilelang.passes.parallel_loop import nested_parallel
from tilelang.passes.walk import constant
from tilelang.targets.simt.ops.copy import OP, loop_names, place


def fill_loop(fill: Fill) -> X.For:
    """`for i, j in Parallel: dst[...] = value`."""
    tile = [r.extent for r in fill.dst.region if constant(r.extent) != 1]
    loop_vars = [X.Var(name, "int32") for name in loop_names(len(tile))]
    store = X.BufferStore(fill.dst.source, fill.value, place(fill.dst, loop_vars), fill.span)
    return nested_parallel(loop_vars, tile, store, {OP: "clear" if fill.clears else "fill"}, fill.span)
