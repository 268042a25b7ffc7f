"""Tile function -> Metal, read as a table of contents: each step is a file of its own.

Pipelined loops run without stages: threadgroup memory is 32 KiB, and there is no asynchronous copy into it.
Accumulators change between registers and simdgroup matrices (`accumulators`).
"""

from __future__ import annotations

import math

from tvm import tirx as X

from tilelang.arch.target import Target
from tilelang.ir import tile_ops
from tilelang.passes.expand_reducers import expand_reducers
from tilelang.passes.expand_sparse import expand_sparse
from tilelang.passes.flatten import flatten
from tilelang.passes.follow_fragments import laid_out
from tilelang.passes.guard_bounds import guard_bounds
from tilelang.passes.infer_layouts import infer_layouts
from tilelang.passes.plain_math import plain_math
from tilelang.passes.plan_pipelines import plan_pipelines
from tilelang.passes.swizzle_blocks import swizzle_blocks
from tilelang.passes.widen_narrow import widen_narrow
from tilelang.targets.launch_plan import free_sizes, launch_extents, launch_plan
from tilelang.targets.lowered import LoweredKernel
from tilelang.targets.metal.accumulators import expand, keep_matrices
from tilelang.targets.metal.emit import METAL
from tilelang.targets.metal.ops.gemm import GemmLowering, gemm_layouts
from tilelang.targets.simt.atomics import lower_atomics
from tilelang.targets.simt.budget import check_shared, fits
from tilelang.targets.simt.expand import expand_elementwise
from tilelang.targets.simt.lower_tile_ops import TargetOps
from tilelang.targets.simt.ops.reduce import lower_reduce
from tilelang.targets.simt.ops.scan import lower_scan
from tilelang.targets.simt.place import Placed, place
from tilelang.targets.simt.write import write


def lower(func: X.PrimFunc, target: Target) -> LoweredKernel:
    """Lower a tile function for Apple GPUs, down to source text.

    Raises KernelError for a kernel that the target cannot run.
    """
    func = plain_math(widen_narrow(expand_sparse(func)), float64=False)
    tiles = guard_bounds(expand_elementwise(plan_pipelines(expand_reducers(func), asynchronous=False).func))
    threads = math.prod(launch_extents(func)[1])
    placed = _place(tiles, threads, target, padded=True)
    if not fits(placed.arena, target):  # better bank conflicts than no kernel
        placed = _place(tiles, threads, target, padded=False)
    check_shared(func, placed.arena, target)
    flat = flatten(swizzle_blocks(placed.func), placed.layouts.shared, free_sizes(func))
    offsets = {flat.buffers[handle]: at for handle, at in placed.arena.offsets.items()}
    plan = launch_plan(func, "metal", shared_bytes=placed.arena.bytes)
    return write(lower_atomics(expand(flat.func), target), placed, offsets, plan, target, METAL)


def _place(tiles: X.PrimFunc, threads: int, target: Target, padded: bool) -> Placed:
    tiles, layouts = laid_out(
        tiles, lambda t: infer_layouts(t, threads, gemm_layouts(target, padded), target.name)
    )
    ops = TargetOps(
        calls={tile_ops.GEMM: GemmLowering().lower, tile_ops.REDUCE: lower_reduce, tile_ops.SCAN: lower_scan}
    )
    return place(tiles, layouts, threads, target, (ops,), settle=keep_matrices)
