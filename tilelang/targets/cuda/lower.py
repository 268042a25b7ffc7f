"""Tile function -> CUDA, read as a table of contents: each step is a file that says what comes in and what
goes out.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tvm import tirx as X

from tilelang.arch.cuda import DISABLE_WGMMA
from tilelang.arch.tables import features
from tilelang.arch.target import Target
from tilelang.diagnostics.error import KernelError
from tilelang.facts.reports import GeneratedSource
from tilelang.ir import tile_ops
from tilelang.passes.expand_reducers import expand_reducers
from tilelang.passes.flatten import flatten
from tilelang.passes.guard_bounds import guard_bounds
from tilelang.passes.infer_layouts import LayoutMap, infer_layouts
from tilelang.passes.insert_sync import insert_sync
from tilelang.passes.plan_pipelines import plan_pipelines
from tilelang.passes.plan_shared import plan_shared
from tilelang.passes.swizzle_blocks import swizzle_blocks
from tilelang.passes.widen_narrow import widen_narrow
from tilelang.targets.c_printer import print_kernel
from tilelang.targets.cuda.alignment import parameter_alignment
from tilelang.targets.cuda.emit import CUDA, CUDA_FAST_MATH
from tilelang.targets.cuda.ops.copy import lower_async_copy, lower_commit, lower_wait
from tilelang.targets.cuda.ops.gemm import gemm_layouts, gemm_with_wgmma, lower_gemm
from tilelang.targets.cuda.ops.wgmma import WgmmaRule, wgmma_rule
from tilelang.targets.cuda.source_kernel import source_kernel
from tilelang.targets.launch_plan import free_sizes, launch_extents, launch_plan
from tilelang.targets.lowered import LoweredKernel
from tilelang.targets.simt.atomics import lower_atomics
from tilelang.targets.simt.budget import check_shared, fits
from tilelang.targets.simt.expand import expand_elementwise
from tilelang.targets.simt.lower_tile_ops import TargetOps, lower_tile_ops
from tilelang.targets.simt.ops.reduce import lower_reduce

OPS = TargetOps(
    calls={
        tile_ops.GEMM: lower_gemm,
        tile_ops.REDUCE: lower_reduce,
        tile_ops.ASYNC_COMMIT: lower_commit,
        tile_ops.ASYNC_WAIT: lower_wait,
    },
    async_copy=lower_async_copy,
)

FAST_MATH = "tl.enable_fast_math"  # attribute of the function: approximate exp, log, sin, ... are welcome


def lower(func: X.PrimFunc, target: Target) -> LoweredKernel:
    """Lower a tile function for an NVIDIA GPU, down to source text.

    Raises KernelError for a kernel that the target cannot run.
    """
    if (by_hand := source_kernel(func, target)) is not None:
        return by_hand
    func = widen_narrow(func)
    threads = math.prod(launch_extents(func)[1])
    pipelines = plan_pipelines(expand_reducers(func), asynchronous=features(target).async_copies)
    tiles = guard_bounds(expand_elementwise(pipelines.func))
    wgmma = None if _asks(func, DISABLE_WGMMA) else wgmma_rule(tiles, threads, target)
    layouts, wgmma = _layouts(tiles, threads, target, wgmma)
    usual = _ops(wgmma)
    for ops in (usual, replace(usual, frugal=True)):
        per_thread = lower_tile_ops(tiles, layouts, threads, target, ops)
        ordered = insert_sync(per_thread.func, per_thread.block_level, pipelines.versioned)
        arena = plan_shared(ordered.body, layouts.shared)
        if fits(arena, target):
            break
    check_shared(func, arena, target)
    flat = flatten(swizzle_blocks(ordered), layouts.shared, free_sizes(func))
    offsets = {flat.buffers[handle]: at for handle, at in arena.offsets.items()}
    lowered = lower_atomics(flat.func, target)

    plan = launch_plan(func, "cuda", shared_bytes=arena.bytes, alignment=parameter_alignment(lowered))
    dialect = CUDA_FAST_MATH if _asks(func, FAST_MATH) else CUDA
    printed = print_kernel(
        lowered, dialect, shared_offsets=offsets, shared_bytes=arena.bytes, arguments=plan.arguments
    )
    source = GeneratedSource(plan.entry, target.name, "cuda", printed.text, printed.line_map)
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


def _asks(func: X.PrimFunc, name: str) -> bool:
    return name in func.attrs and bool(func.attrs[name])


def _layouts(
    tiles: X.PrimFunc, threads: int, target: Target, wgmma: WgmmaRule | None
) -> tuple[LayoutMap, WgmmaRule | None]:
    """The layouts, and the rule they follow: mma.sync where those of wgmma contradict each other."""
    if wgmma is not None:
        try:
            return infer_layouts(tiles, threads, gemm_layouts(target, wgmma), target.name), wgmma
        except KernelError:
            pass  # an error that is not about wgmma comes again below
    return infer_layouts(tiles, threads, gemm_layouts(target), target.name), None


def _ops(wgmma: WgmmaRule | None) -> TargetOps:
    if wgmma is None:
        return OPS
    return replace(OPS, calls={**OPS.calls, tile_ops.GEMM: gemm_with_wgmma(wgmma)})
