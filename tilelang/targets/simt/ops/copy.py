"""T.copy as an elementwise loop over the tile."""

from __future__ import annotations

from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.layout.annotated import LOOP_LAYOUT
from tilelang.ops.copy import Copy
from tilelang.passes.parallel_loop import ASYNC, nested_parallel
from tilelang.passes.walk import constant

# Annotations of the loop that a copy became.
WIDTH = "coalesced_width"
OP = "tl.op"

_LEVEL = {"global": 0, "shared": 1}


def copy_loop(copy: Copy) -> X.For:
    """`for i, j in Parallel: dst[...] = src[...]`, over the extents of the side lower in the memory
    hierarchy.
    """
    src, dst = copy.src, copy.dst
    by_dst = _level(dst.source) > _level(src.source)
    tile = [r.extent for r in (dst if by_dst else src).region if constant(r.extent) != 1]
    loop_vars = [X.Var(name, "int32") for name in loop_names(len(tile))]
    value = X.BufferLoad(src.source, place(src, loop_vars))
    if str(src.source.dtype) != str(dst.source.dtype):
        value = X.Cast(str(dst.source.dtype), value)
    store = X.BufferStore(dst.source, value, place(dst, loop_vars), copy.span)
    notes = {
        OP: "copy",
        WIDTH: copy.coalesced_width,
        ASYNC: copy.is_async or None,
        LOOP_LAYOUT: copy.loop_layout,
    }
    return nested_parallel(loop_vars, tile, store, notes, copy.span)


def place(region: Any, loop_vars: list[ir.Var]) -> list[Any]:
    """Indices into the region's buffer: its start, plus the loop variables in order at the extents that are
    not 1.
    """
    left = list(loop_vars)
    found = []
    for r in region.region:
        if constant(r.extent) == 1 or not left:
            found.append(r.min)
        else:
            var = left.pop(0)
            found.append(var if constant(r.min) == 0 else r.min + var)
    return found


def loop_names(count: int) -> list[str]:
    return ["i", "j", "k", "l", "m", "n"][:count] if count <= 6 else [f"i{d}" for d in range(count)]


def _level(buffer: ir.Var) -> int:
    return _LEVEL.get(buffer.scope(), 2)
