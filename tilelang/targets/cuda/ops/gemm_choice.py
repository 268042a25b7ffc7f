"""Which instruction carries out a T.gemm or T.gemm_sp: wgmma where it is wanted and fits, else mma."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tilelang.arch.target import Target
from tilelang.ir.teams import Team
from tilelang.ir.tile_ops import seq
from tilelang.layout.gemm_operands import shared_operand
from tilelang.ops.gemm import Gemm
from tilelang.ops.gemm_sp import SparseGemm, gemm_of
from tilelang.passes.infer_layouts import GemmLayouts
from tilelang.targets.cuda.ops.gemm import GemmPlan, clear_accumulator, gemm_plan, lower_gemm
from tilelang.targets.cuda.ops.gemm_sp import lower_gemm_sp, sparse_plan
from tilelang.targets.cuda.ops.wgmma import WgmmaPlan, WgmmaRule, lower_wgmma
from tilelang.targets.simt.block import Block
from tilelang.targets.simt.share_gemm import imposed


def gemm_layouts(target: Target, wgmma: WgmmaRule | None = None) -> Callable[[Gemm, Team], GemmLayouts]:
    """The rule for `infer_layouts`: what the instruction imposes on the operands of a gemm."""

    def rule(gemm: Gemm, team: Team) -> GemmLayouts:
        plan: GemmPlan | WgmmaPlan | None = wgmma.plan(gemm, team) if wgmma else None
        if plan is None and isinstance(gemm, SparseGemm):
            plan = sparse_plan(gemm, team.threads, target)
        elif plan is None:
            plan = gemm_plan(gemm, team.threads, target)
        return imposed(gemm, plan.layouts, partial(shared_operand, target.kind))

    return rule


def gemm_with_wgmma(rule: WgmmaRule) -> Callable[[Any, Block], Any]:
    """The lowering of `tl.gemm` and `tl.gemm_sp` with wgmma where it fits."""

    def lower(stmt: Any, block: Block) -> Any:
        gemm = gemm_of(stmt.value)
        assert gemm is not None
        plan = rule.plan(gemm, block.team)
        if plan is not None:
            return seq([clear_accumulator(gemm, block), lower_wgmma(gemm, plan, block, rule.landing)])
        return lower_gemm_sp(stmt, block) if isinstance(gemm, SparseGemm) else lower_gemm(stmt, block)

    return lower
