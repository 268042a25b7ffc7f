"""Tile function -> HIP C++ for AMD CDNA, read as a table of contents: each step is a file of its own.

Pipelined loops run without stages: LDS is 64 KiB, and there is no asynchronous copy into it to wait for.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tvm import tirx as X

from tilelang.arch.target import Target
from tilelang.facts.reports import GeneratedSource
from tilelang.ir import tile_ops
from tilelang.passes.expand_reducers import expand_reducers
from tilelang.passes.flatten import flatten
from tilelang.passes.follow_fragments import laid_out
from tilelang.passes.guard_bounds import guard_bounds
from tilelang.passes.infer_layouts import infer_layouts
from tilelang.passes.insert_sync import insert_sync
from tilelang.passes.pack_halves import pack_halves
from tilelang.passes.plain_math import plain_math
from tilelang.passes.plan_pipelines import plan_pipelines
from tilelang.passes.plan_shared import apart, plan_shared
from tilelang.passes.swizzle_blocks import swizzle_blocks
from tilelang.passes.widen_narrow import widen_narrow
from tilelang.targets.c_printer import print_kernel
from tilelang.targets.hip.emit import HIP
from tilelang.targets.hip.ops.gemm import gemm_layouts, lower_gemm
from tilelang.targets.launch_plan import free_sizes, launch_extents, launch_plan
from tilelang.targets.lowered import LoweredKernel
from tilelang.targets.simt.atomics import lower_atomics
from tilelang.targets.simt.budget import check_shared, fits
from tilelang.targets.simt.expand import expand_elementwise
from tilelang.targets.simt.lower_tile_ops import TargetOps, lower_tile_ops
from tilelang.targets.simt.ops.reduce import lower_reduce

OPS = TargetOps(calls={tile_ops.GEMM: lower_gemm, tile_ops.REDUCE: lower_reduce})


def lower(func: X.PrimFunc, target: Target) -> LoweredKernel:
    """Lower a tile function for gfx90a or gfx942, down to source text.

    Raises KernelError for a kernel that the target cannot run.
    """
    func = plain_math(widen_narrow(func))
    threads = math.prod(launch_extents(func)[1])
    pipelines = plan_pipelines(expand_reducers(func), asynchronous=False)
    tiles = guard_bounds(expand_elementwise(pipelines.func))
    tiles, layouts = laid_out(tiles, lambda t: infer_layouts(t, threads, gemm_layouts(target), target.name))
    for ops in (OPS, replace(OPS, frugal=True)):
        per_thread = lower_tile_ops(tiles, layouts, threads, target, ops)
        ordered = insert_sync(
            per_thread.func, per_thread.block_level, pipelines.versioned, by_some=per_thread.by_some
        )
        arena = plan_shared(ordered.body, layouts.shared)
        if not fits(arena, target):
            ordered = apart(ordered)
            arena = plan_shared(ordered.body, layouts.shared)
        if fits(arena, target):
            break
    check_shared(func, arena, target)
    flat = flatten(swizzle_blocks(ordered), layouts.shared, free_sizes(func))
    packed = pack_halves(flat.func, target)
    offsets = {packed.of(flat.buffers[handle]): at for handle, at in arena.offsets.items()}
    lowered = lower_atomics(packed.func, target)

    plan = launch_plan(func, "hip", shared_bytes=arena.bytes)
    printed = print_kernel(
        lowered, HIP, shared_offsets=offsets, shared_bytes=arena.bytes, arguments=plan.arguments
    )
    source = GeneratedSource(plan.entry, target.name, "hip", printed.text, printed.line_map)
    return LoweredKernel(
        name=plan.entry,
        target=target,
        func=lowered,
        plan=plan,
        source=source,
        shared_offsets=offsets,
        layouts=layouts.describe(),
        registers=layouts.registers(),
        instructions=dict(per_thread.instructions),
    )
