"""Tile function -> Metal, read as a table of contents: each step is a file of its own.

Pipelined loops run without stages: threadgroup memory is 32 KiB, and there is no asynchronous copy into it.
Accumulators change between registers and simdgroup matrices (`accumulators`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tvm import tirx as X

from tilelang.arch.target import Target
from tilelang.diagnostics.span import Span
from tilelang.facts.reports import GeneratedSource
from tilelang.ir import tile_ops
from tilelang.passes.expand_reducers import expand_reducers
from tilelang.passes.flatten import flatten
from tilelang.passes.follow_fragments import laid_out
from tilelang.passes.guard_bounds import guard_bounds
from tilelang.passes.infer_layouts import LayoutMap, infer_layouts
from tilelang.passes.insert_sync import insert_sync
from tilelang.passes.plain_math import plain_math
from tilelang.passes.plan_pipelines import plan_pipelines
from tilelang.passes.plan_shared import Arena, apart, plan_shared
from tilelang.passes.swizzle_blocks import swizzle_blocks
from tilelang.passes.widen_narrow import widen_narrow
from tilelang.targets.c_printer import print_kernel
from tilelang.targets.launch_plan import free_sizes, launch_extents, launch_plan
from tilelang.targets.lowered import LoweredKernel
from tilelang.targets.metal.accumulators import expand, keep_matrices
from tilelang.targets.metal.emit import METAL
from tilelang.targets.metal.ops.gemm import GemmLowering, gemm_layouts
from tilelang.targets.simt.atomics import lower_atomics
from tilelang.targets.simt.budget import check_shared, fits
from tilelang.targets.simt.expand import expand_elementwise
from tilelang.targets.simt.lower_tile_ops import TargetOps, lower_tile_ops
from tilelang.targets.simt.ops.reduce import lower_reduce


@dataclass(frozen=True)
class _Placed:
    """The kernel for one thread, ordered by barriers, its shared memory placed."""

    layouts: LayoutMap
    func: X.PrimFunc
    arena: Arena
    instructions: Mapping[Span, str]


def lower(func: X.PrimFunc, target: Target) -> LoweredKernel:
    """Lower a tile function for Apple GPUs, down to source text.

    Raises KernelError for a kernel that the target cannot run.
    """
    func = plain_math(widen_narrow(func), float64=False)
    tiles = guard_bounds(expand_elementwise(plan_pipelines(expand_reducers(func), asynchronous=False).func))
    threads = math.prod(launch_extents(func)[1])
    placed = _place(tiles, threads, target, padded=True)
    if not fits(placed.arena, target):  # better bank conflicts than no kernel
        placed = _place(tiles, threads, target, padded=False)
    check_shared(func, placed.arena, target)
    flat = flatten(swizzle_blocks(placed.func), placed.layouts.shared, free_sizes(func))
    body = lower_atomics(expand(flat.func), target)
    offsets = {flat.buffers[handle]: at for handle, at in placed.arena.offsets.items()}

    plan = launch_plan(func, "metal", shared_bytes=placed.arena.bytes)
    printed = print_kernel(
        body, METAL, shared_offsets=offsets, shared_bytes=placed.arena.bytes, arguments=plan.arguments
    )
    source = GeneratedSource(plan.entry, target.name, "metal", printed.text, printed.line_map)
    return LoweredKernel(
        name=plan.entry,
        target=target,
        func=body,
        plan=plan,
        source=source,
        shared_offsets=offsets,
        layouts=placed.layouts.describe(),
        registers=placed.layouts.registers(),
        instructions=dict(placed.instructions),
    )


def _place(tiles: X.PrimFunc, threads: int, target: Target, padded: bool) -> _Placed:
    tiles, layouts = laid_out(
        tiles, lambda t: infer_layouts(t, threads, gemm_layouts(target, padded), target.name)
    )
    ops = TargetOps(calls={tile_ops.GEMM: GemmLowering().lower, tile_ops.REDUCE: lower_reduce})
    per_thread = lower_tile_ops(tiles, layouts, threads, target, ops)
    kept = keep_matrices(per_thread.func, per_thread.block_level)
    ordered = insert_sync(kept.func, kept.block_level, (), by_some=per_thread.by_some)
    arena = plan_shared(ordered.body, layouts.shared)
    if not fits(arena, target):
        ordered = apart(ordered)
        arena = plan_shared(ordered.body, layouts.shared)
    return _Placed(layouts, ordered, arena, per_thread.instructions)
