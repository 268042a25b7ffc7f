"""Warps of a known size: `tl.warp_size()` becomes a number, shuffles name the lane that they read.

In:  a tile function with thread code.
Out: the same with the target's warp size in place of `tl.warp_size()`. With `by_number`, for targets that
     know only one kind of shuffle, every shuffle is `tl.shuffle(value, lane)`: segments, distances and the
     own value beyond an end are worked out here.
Not: anything for functions without thread code.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir
from tvm import tirx as X

from tilelang.ir import thread_ops, tile_ops
from tilelang.passes.walk import calls, constant, index, walk

SHUFFLE = "tl.shuffle"  # (value, lane)


def warp_lanes(func: X.PrimFunc, warp_size: int, by_number: bool) -> X.PrimFunc:
    """Apply the pass."""
    names = {thread_ops.call_name(c) for c in calls(func.body)}
    shuffles = names & set(thread_ops.SHUFFLES) if by_number else set()
    if not shuffles and thread_ops.WARP_SIZE not in names:
        return func
    lane = index(0) if not shuffles else linear_thread(func.body) % warp_size

    def rewrite(call: ir.Call) -> Any:
        name = thread_ops.call_name(call)
        if name == thread_ops.WARP_SIZE:
            return index(warp_size)
        if name in shuffles:
            return _by_number(name, call, lane, warp_size)
        return call

    return func.with_body(tvm_ffi.structural_map(func.body, (ir.Call, rewrite)))


def linear_thread(body: Any) -> Any:
    """The thread's number in its block, x first."""
    axes = [
        s for s in walk(body) if isinstance(s, X.AttrStmt) and str(s.node.thread_tag).startswith("threadIdx")
    ]
    number: Any = index(0)
    for s in sorted(axes, key=lambda s: str(s.node.thread_tag), reverse=True):
        number = s.node.var if constant(number) == 0 else number * s.value + s.node.var
    return number


def _by_number(name: str, call: ir.Call, lane: Any, warp_size: int) -> Any:
    value, by, width = call.args[:3]
    inside = lane % width if constant(width) != warp_size else lane
    match name.removeprefix("tl."):
        case "shfl_sync":
            source = by if constant(width) == warp_size else lane - inside + X.floormod(by, width)
        case "shfl_xor":
            other = X.bitwise_xor(lane, by)
            source = other
            if constant(width) != warp_size:
                source = X.Select(other < lane - inside + width, other, lane)
        case "shfl_up":
            source = X.Select(inside >= by, lane - by, lane)
        case _:
            source = X.Select(inside + by < width, lane + by, lane)
    return tile_ops.call(SHUFFLE, [value, source], dtype=str(call.ty.dtype), span=call.span)
