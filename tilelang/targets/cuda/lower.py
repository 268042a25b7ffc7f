"""Tile function -> CUDA, read as a table of contents: each step is a file that says what comes in and what
goes out.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from tvm import tirx as X

from tilelang.arch.cuda import (
    DISABLE_TMA,
    DISABLE_WARP_SPECIALISED,
    DISABLE_WGMMA,
    WARP_SPECIALISED_BY_DEFAULT,
    WGMMA_SM,
)
from tilelang.arch.tables import features
from tilelang.arch.target import Target
from tilelang.diagnostics.error import KernelError
from tilelang.ir import tile_ops
from tilelang.ir.teams import Team
from tilelang.ops.gemm import Gemm
from tilelang.passes.dot_of_four import dot_of_four
from tilelang.passes.expand_reducers import expand_reducers
from tilelang.passes.expand_sparse import expand_sparse
from tilelang.passes.flatten import flatten
from tilelang.passes.follow_fragments import laid_out
from tilelang.passes.guard_bounds import guard_bounds
from tilelang.passes.infer_layouts import LayoutMap, gemms_of, infer_layouts
from tilelang.passes.pack_halves import pack_halves
from tilelang.passes.plan_pipelines import plan_pipelines
from tilelang.passes.specialise_warps import Refusal, Specialised, specialise_warps
from tilelang.passes.swizzle_blocks import swizzle_blocks
from tilelang.passes.walk import calls
from tilelang.passes.widen_narrow import widen_narrow
from tilelang.targets.c_printer import MIN_BLOCKS
from tilelang.targets.cuda.alignment import parameter_alignment
from tilelang.targets.cuda.emit import CUDA, CUDA_FAST_MATH
from tilelang.targets.cuda.ops.copy import lower_async_copy, lower_commit, lower_wait
from tilelang.targets.cuda.ops.gemm import lower_gemm
from tilelang.targets.cuda.ops.gemm_choice import gemm_layouts, gemm_with_wgmma
from tilelang.targets.cuda.ops.gemm_sp import has_instruction, lower_gemm_sp
from tilelang.targets.cuda.ops.tma import (
    TENSOR_MAP_ALIGNMENT,
    author_descriptor,
    check_safe_values,
    lower_tma_copy,
)
from tilelang.targets.cuda.ops.wgmma import WgmmaRule, lower_arrive, lower_wait_always, wgmma_rule
from tilelang.targets.cuda.ops.wgmma import lower_wait as lower_product_wait
from tilelang.targets.cuda.source_kernel import source_kernel
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

OPS = TargetOps(
    calls={
        tile_ops.GEMM: lower_gemm,
        tile_ops.GEMM_SP: lower_gemm_sp,
        tile_ops.REDUCE: lower_reduce,
        tile_ops.SCAN: lower_scan,
        tile_ops.ASYNC_COMMIT: lower_commit,
        tile_ops.ASYNC_WAIT: lower_wait,
        tile_ops.WGMMA_WAIT: lower_product_wait,
    },
    async_copy=lower_async_copy,
    issued={tile_ops.TMA_COPY: lower_tma_copy},
    values={tile_ops.TMA_DESCRIPTOR: author_descriptor},
    teams=True,
)

FAST_MATH = "tl.enable_fast_math"  # attribute of the function: approximate exp, log, sin, ... are welcome


def lower(func: X.PrimFunc, target: Target) -> LoweredKernel:
    """Lower a tile function for an NVIDIA GPU, down to source text.

    Raises KernelError for a kernel that the target cannot run.
    """
    if (by_hand := source_kernel(func, target)) is not None:
        return by_hand
    func = widen_narrow(expand_sparse(func, lambda gemm: has_instruction(gemm, target)))
    if target.sm != WGMMA_SM or not _specialises(func):
        return _lower(func, target)
    specialised = _specialised(func, target)
    why, obvious = "", False
    if isinstance(specialised, Refusal):
        why, obvious = specialised.why, specialised.obvious and DISABLE_WARP_SPECIALISED not in func.attrs
    if isinstance(specialised, Specialised):
        try:
            return _lower(specialised.func, target, specialised.blocks)
        except KernelError as error:
            # What the specialised kernel cannot do the plain one may; other errors come again.
            why = error.problems[0].message
    plain = _lower(func, target)
    if obvious:
        return plain
    return replace(plain, notes=(*plain.notes, f"not warp-specialised: {why}"))


def _specialised(func: X.PrimFunc, target: Target) -> Specialised | Refusal:
    threads = math.prod(launch_extents(func)[1])
    block = Team(0, threads)
    rule = wgmma_rule(func, gemms_of(func, threads), target)
    if _asks(func, DISABLE_WGMMA):
        rule = None

    def by_wgmma(gemm: Gemm) -> bool:
        return rule is not None and rule.plan(gemm, block) is not None

    processor = features(target).processor
    assert processor is not None  # of WGMMA_SM
    asked = DISABLE_WARP_SPECIALISED in func.attrs
    blocks = int(func.attrs[MIN_BLOCKS]) if MIN_BLOCKS in func.attrs else None
    return specialise_warps(func, processor.shared_bytes, by_wgmma, asked, blocks)


def _lower(func: X.PrimFunc, target: Target, min_blocks: int = 1) -> LoweredKernel:
    threads = math.prod(launch_extents(func)[1])
    pipelines = plan_pipelines(expand_reducers(func), asynchronous=features(target).async_copies)
    tiles = guard_bounds(expand_elementwise(pipelines.func))
    rule = None if _asks(func, DISABLE_WGMMA) else wgmma_rule(tiles, gemms_of(tiles, threads), target)
    check_safe_values(tiles)
    tiles, (layouts, wgmma) = laid_out(tiles, lambda t: _layouts(t, threads, target, rule))
    usual = _ops(wgmma, _asks(func, tile_ops.SINGLE_PRODUCTS))
    ways = (usual, replace(usual, frugal=True))
    placed = place(tiles, layouts, threads, target, ways, versioned=pipelines.versioned)
    check_shared(func, placed.arena, target)
    flat = flatten(swizzle_blocks(placed.func), layouts.shared, free_sizes(func))
    maps = {replace(m, name=str(v.name)): v for m, v in placed.thread.maps.items()}
    packed = pack_halves(dot_of_four(flat.func), target)
    offsets = {packed.of(flat.buffers[handle]): at for handle, at in placed.arena.offsets.items()}
    lowered = _with_params(lower_atomics(packed.func, target), list(maps.values()))

    alignment = {**parameter_alignment(lowered), **{m.tensor: TENSOR_MAP_ALIGNMENT for m in maps}}
    plan = launch_plan(func, "cuda", shared_bytes=placed.arena.bytes, alignment=alignment)
    plan = replace(plan, descriptors=tuple(maps))
    dialect = CUDA_FAST_MATH if _asks(func, FAST_MATH) else CUDA
    # The compiler must know how many registers there are before some are given away.
    least = min_blocks if _moves_registers(lowered) and MIN_BLOCKS not in func.attrs else None
    return write(lowered, placed, offsets, plan, target, dialect, least)


def _specialises(func: X.PrimFunc) -> bool:
    """Whether the kernel leaves or asks for warp specialisation."""
    if _asks(func, DISABLE_TMA):
        return False
    if DISABLE_WARP_SPECIALISED in func.attrs:
        return not bool(func.attrs[DISABLE_WARP_SPECIALISED])
    return WARP_SPECIALISED_BY_DEFAULT


def _asks(func: X.PrimFunc, name: str) -> bool:
    return name in func.attrs and bool(func.attrs[name])


def _moves_registers(func: X.PrimFunc) -> bool:
    return any(str(getattr(c.op, "name", "")).startswith("tl.setmaxnreg") for c in calls(func.body))


def _with_params(func: X.PrimFunc, more: list[Any]) -> X.PrimFunc:
    if not more:
        return func
    attrs = {str(k): func.attrs[k] for k in func.attrs.keys()}  # noqa: SIM118 (a DictAttrs, no dict)
    return X.PrimFunc([*func.params, *more], func.body, span=func.span).with_attrs(attrs)


def _layouts(
    tiles: X.PrimFunc, threads: int, target: Target, wgmma: WgmmaRule | None
) -> tuple[LayoutMap, WgmmaRule | None]:
    """The layouts, and the rule they follow: mma.sync where those of wgmma contradict each other."""
    if wgmma is not None:
        try:
            rule = gemm_layouts(target, wgmma)
            return infer_layouts(tiles, threads, rule, target.name, teams=True), wgmma
        except KernelError:
            pass  # an error that is not about wgmma comes again below
    return infer_layouts(tiles, threads, gemm_layouts(target), target.name, teams=True), None


def _ops(wgmma: WgmmaRule | None, single: bool) -> TargetOps:
    """`single`: the kernel has wgmma instructions of its author."""
    calls = dict(OPS.calls)
    if wgmma is not None:
        calls[tile_ops.GEMM] = calls[tile_ops.GEMM_SP] = gemm_with_wgmma(wgmma)
    if single:
        calls |= {tile_ops.WGMMA_ARRIVE: lower_arrive, tile_ops.WGMMA_WAIT: lower_wait_always}
    return replace(OPS, calls=calls)
