"""Tile function -> HIP C++ for AMD CDNA, read as a table of contents: each step is a file of its own.

Pipelined loops run without stages: LDS is 64 KiB, and there is no asynchronous copy into it to wait for.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tvm import tirx as X

from tilelang.arch.target import Target
from tilelang.ir import tile_ops
from tilelang.passes.expand_reducers import expand_reducers
from tilelang.passes.expand_sparse import expand_sparse
from tilelang.passes.flatten import flatten
from tilelang.passes.follow_fragments import laid_out
from tilelang.passes.guard_bounds import guard_bounds
from tilelang.passes.infer_layouts import infer_layouts
from tilelang.passes.pack_halves import pack_halves
from tilelang.passes.plain_math import plain_math
from tilelang.passes.plan_pipelines import plan_pipelines
from tilelang.passes.swizzle_blocks import swizzle_blocks
from tilelang.passes.widen_narrow import widen_narrow
from tilelang.targets.hip.emit import HIP
from tilelang.targets.hip.ops.gemm import gemm_layouts, lower_gemm
from tilelang.targets.launch_plan import free_sizes, launch_extents, launch_plan
from tilelang.targets.lowered import LoweredKernel
from tilelang.targets.simt.atomics import lower_atomics
from tilelang.targets.simt.budget import check_shared
from tilelang.targets.simt.expand import expand_elementwise
from tilelang.targets.simt.lower_tile_ops import TargetOps
from tilelang.targets.simt.ops.reduce import lower_reduce
from tilelang.targets.simt.ops.scan import lower_scan
from tilelang.targets.simt.place import place
from tilelang.targets.simt.write import write

OPS = TargetOps(calls={tile_ops.GEMM: lower_gemm, tile_ops.REDUCE: lower_reduce, tile_ops.SCAN: lower_scan})


def lower(func: X.PrimFunc, target: Target) -> LoweredKernel:
    """Lower a tile function for gfx90a or gfx942, down to source text.

    Raises KernelError for a kernel that the target cannot run.
    """
    func = plain_math(widen_narrow(expand_sparse(func)))
    threads = math.prod(launch_extents(func)[1])
    tiles = guard_bounds(expand_elementwise(plan_pipelines(expand_reducers(func), asynchronous=False).func))
    tiles, layouts = laid_out(tiles, lambda t: infer_layouts(t, threads, gemm_layouts(target), target.name))
    placed = place(tiles, layouts, threads, target, (OPS, replace(OPS, frugal=True)))
    check_shared(func, placed.arena, target)
    flat = flatten(swizzle_blocks(placed.func), layouts.shared, free_sizes(func))
    packed = pack_halves(flat.func, target)
    offsets = {packed.of(flat.buffers[handle]): at for handle, at in placed.arena.offsets.items()}
    plan = launch_plan(func, "hip", shared_bytes=placed.arena.bytes)
    return write(lower_atomics(packed.func, target), placed, offsets, plan, target, HIP)
