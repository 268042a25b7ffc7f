"""Warps of a known size: `tl.warp_size()` becomes a number, shuffles name the lane that they read, reductions
the lanes that there are.

In:  a tile function with thread code.
Out: the same with the target's warp size in place of `tl.warp_size()`. With `by_number`, for targets that
     know only one kind of shuffle, every shuffle is `tl.shuffle(value, lane)`: segments, distances and the
     own value beyond an end are worked out here. With `parts`, for targets whose reductions read all
     lanes of a warp, those of a block that does not fill its last warp become `tl.part_warp_reduce_*`.
Not: anything for functions without thread code.
"""

from __future__ import annotations

import math
from typing import Any

import tvm_ffi
from tvm import ir
from tvm import tirx as X

from tilelang.ir import thread_ops, tile_ops
from tilelang.passes.walk import calls, constant, index, walk

SHUFFLE = "tl.shuffle"  # (value, lane)


def warp_lanes(func: X.PrimFunc, warp_size: int, by_number: bool, parts: bool) -> X.PrimFunc:
    """Apply the pass."""
    names = {thread_ops.call_name(c) for c in calls(func.body)}
    shuffles = names & set(thread_ops.SHUFFLES) if by_number else set()
    reductions = names & set(thread_ops.WARP_REDUCTIONS) if parts else set()
    threads = _threads(func.body) if reductions else 0
    if threads % warp_size == 0:
        reductions = set()
    if not shuffles and not reductions and thread_ops.WARP_SIZE not in names:
        return func
    thread = linear_thread(func.body)
    lane = thread if 0 < threads <= warp_size else thread % warp_size

    def rewrite(call: ir.Call) -> Any:
        name = thread_ops.call_name(call)
        if name == thread_ops.WARP_SIZE:
            return index(warp_size)
        if name in shuffles:
            return _by_number(name, call, lane, warp_size)
        if name in reductions:
            args = [*call.args, lane, _lanes_there(thread, threads, warp_size)]
            part = name.replace("tl.", "tl.part_")
            return tile_ops.call(part, args, dtype=str(call.ty.dtype), span=call.span)
        return call

    return func.with_body(tvm_ffi.structural_map(func.body, (ir.Call, rewrite)))


def _threads(body: Any) -> int:
    """How many threads a block has."""
    return math.prod(constant(s.value) or 0 for s in _axes(body))


def _lanes_there(thread: Any, threads: int, warp_size: int) -> Any:
    """How many lanes the thread's warp has; all warps but the last are whole."""
    rest = threads % warp_size
    if threads < warp_size:
        return index(rest)
    return X.Select(thread < threads - rest, index(warp_size), index(rest))


def _axes(body: Any) -> list[X.AttrStmt]:
    """Where the numbers of threads are bound: x, y and z, as far as there are such."""
    axes = [
        s for s in walk(body) if isinstance(s, X.AttrStmt) and str(s.node.thread_tag).startswith("threadIdx")
    ]
    return sorted(axes, key=lambda s: str(s.node.thread_tag))


def linear_thread(body: Any) -> Any:
    """The thread's number in its block, x first."""
    number: Any = index(0)
    for s in reversed(_axes(body)):
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
