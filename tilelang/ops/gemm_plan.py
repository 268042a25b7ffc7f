"""How a target carries out a T.gemm: the instruction, and the grid of warps."""

from __future__ import annotations

from dataclasses import dataclass

from tilelang.arch.cuda import WGMMA_M
from tilelang.arch.instruction import MatrixInstruction
from tilelang.arch.tables import choose_instruction
from tilelang.arch.warp_partition import WarpPartition, warp_partition
from tilelang.ir.tile_program import OpRecord
from tilelang.ir.values import Region, as_int
from tilelang.layout.wgmma_partition import (
    GROUP_THREADS,
    WgmmaOperand,
    hindering_transpose,
    wgmma_k,
    wgmma_partition,
)
from tilelang.ops.build import option
from tilelang.ops.gemm_shapes import matching_sides, transpose_options
from tilelang.ops.operands import dtype_name, regions
from tilelang.ops.tile_op import CheckContext, WgmmaChoice

_TF32_BY_WGMMA = "TF32: 10 bits of mantissa, the others cut off, accumulated in float32"


@dataclass(frozen=True)
class GemmPlan:
    """How a target carries out one T.gemm: the instruction, and the grid of warps where threads are known."""

    m: int
    n: int
    k: int
    operand: str
    accumulator: str
    transpose_a: bool
    transpose_b: bool
    instruction: MatrixInstruction
    warps: WarpPartition | None

    @property
    def text(self) -> str:
        """The words of `plan_text`."""
        return plan_text(self.instruction, self.operand, self.accumulator, self.warps)


def plan_text(
    instruction: MatrixInstruction, operand: str, accumulator: str, warps: WarpPartition | None
) -> str:
    """`mma.sync m16n8k16 float32.float16, warps 2×2`."""
    text = f"{instruction.name} {instruction.shape_text} {accumulator}.{operand}"
    return text if warps is None else f"{text}, warps {warps}"


def gemm_plan(record: OpRecord, context: CheckContext) -> GemmPlan | None:
    """The plan of a T.gemm whose sizes and dtypes are known; None on targets without matrix instructions."""
    found, transposes = regions(record, ("A", "B", "C")), transpose_options(record)
    if found is None or transposes is None or any(len(r.extents) < 2 for r in found):
        return None
    a, _, c = found
    sides = {
        left.name: as_int(left.size) for left, _ in matching_sides(found[0], found[1], found[2], *transposes)
    }
    m, n, k = sides["M"], sides["N"], sides["K"]
    operand, accumulator = dtype_name(a.buffer), dtype_name(c.buffer)
    if m is None or n is None or k is None or operand is None or accumulator is None:
        return None
    if 0 in (m, n, k):  # a mistake, see `verify`
        return None
    by_wgmma = None if context.wgmma is None else _wgmma(record, (m, n, k), transposes, context)
    if by_wgmma is not None:
        note = _TF32_BY_WGMMA if operand == "float32" else ""
        size = WGMMA_M, n // by_wgmma.n, wgmma_k(operand)
        instruction = MatrixInstruction("wgmma", *size, operand, (accumulator,), note)
        return GemmPlan(m, n, k, operand, accumulator, *transposes, instruction, by_wgmma)
    chosen = choose_instruction(context.target, operand, accumulator, k)
    if chosen is None:
        return None
    warps = None
    threads = context.threads_of(record)
    if threads is not None:
        policy = str(option(record.value("policy", "Square")))
        count = threads // context.target.warp_size
        warps = warp_partition(policy, m, n, count, chosen.m, chosen.n)
    return GemmPlan(m, n, k, operand, accumulator, *transposes, chosen, warps)


def _wgmma(
    record: OpRecord, shape: tuple[int, int, int], transposes: tuple[bool, bool], context: CheckContext
) -> WarpPartition | None:
    """The grid of warps with which wgmma carries out this gemm, None where mma.sync does."""
    found = regions(record, ("A", "B", "C"))
    team = context.team_of(record)
    if found is None or team is None or context.wgmma is None or team.first % GROUP_THREADS:
        return None
    fragments = [r.buffer for r in found if r.buffer.scope == "local.fragment"]
    if found[2].buffer.scope != "local.fragment" or any(b in context.wgmma.refused for b in fragments):
        return None
    operands = [_wgmma_operand(r, context.wgmma) for r in found[:2]]
    policy, accumulator = str(option(record.value("policy", "Square"))), dtype_name(found[2].buffer)
    if operands[0] is None or operands[1] is None or accumulator is None:
        return None
    return wgmma_partition(shape, operands[0], operands[1], accumulator, transposes, policy, team.threads)


def _wgmma_operand(region: Region, choice: WgmmaChoice) -> WgmmaOperand | None:
    buffer, dtype = region.buffer, dtype_name(region.buffer)
    shape = [as_int(n) for n in buffer.shape]
    if dtype is None or None in shape:
        return None
    starts = [as_int(s) for s in region.starts[-2:]] if not region.whole else [0, 0]
    extents = tuple(n for n in shape if n is not None)
    swizzled = buffer.storage not in choice.unswizzled
    return WgmmaOperand(dtype, buffer.scope, extents, (starts[0], starts[1]), swizzled)


def lost_wgmma(plan: GemmPlan, record: OpRecord, context: CheckContext) -> str:
    """What keeps a gemm from wgmma, where that is the order in which one operand is stored."""
    name = hindering_transpose(plan.operand, (plan.transpose_a, plan.transpose_b))
    if context.wgmma is None or name is None or plan.instruction.name == "wgmma":
        return ""
    turned = (plan.transpose_a and name != "A", plan.transpose_b or name == "B")
    team, b = context.team_of(record), record.region("B")
    if team is None or team.first % GROUP_THREADS or b is None:
        return ""
    shape, right = (plan.m, plan.n, plan.k), dtype_name(b.buffer) or plan.operand
    stored = WgmmaOperand(plan.operand, "shared", (plan.m, plan.k)), WgmmaOperand(right, "shared", shape[1:])
    if wgmma_partition(shape, *stored, plan.accumulator, turned, "Square", team.threads) is None:
        return ""
    wanted = "[M, K]" if name == "A" else "[N, K] with transpose_B=True"
    return f"no wgmma: it takes {plan.operand} operands with K innermost only; store {name} as {wanted}"
