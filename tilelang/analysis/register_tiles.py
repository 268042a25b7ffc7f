"""Fragments whose layout a T.gemm fixes: the accumulator, and operands kept in registers."""

from __future__ import annotations

from dataclasses import dataclass

from tilelang.analysis.subject import Subject
from tilelang.ir.tile_program import OpRecord
from tilelang.ir.values import Buffer
from tilelang.layout.instruction import MMA_A, MMA_B, accumulator, operand_a, operand_b
from tilelang.layout.warp_partition import WarpPartition
from tilelang.ops.gemm import GemmPlan, gemm_plan
from tilelang.ops.operands import dtype_bits


@dataclass(frozen=True)
class RegisterTile:
    """What is known of one fragment: a line for people, and the elements that each thread holds."""

    text: str
    elements: int


def register_tiles(subject: Subject) -> dict[Buffer, RegisterTile]:
    """Fragment -> its layout. Only NVIDIA's mma.sync, whose register tables `layout.instruction` holds."""
    found: dict[Buffer, RegisterTile] = {}
    if subject.target.kind != "cuda":
        return found
    for record in subject.records:
        plan = gemm_plan(record, subject.context) if record.op == "gemm" else None
        if plan is None or plan.warps is None or plan.instruction.name != "mma.sync":
            continue
        if (plan.instruction.m, plan.instruction.n) != (16, 8):
            continue
        for argument in ("C", "A", "B"):
            region = record.region(argument)
            if region is not None and region.whole and region.buffer.scope == "local.fragment":
                tile = _tile(record, argument, plan, plan.warps)
                if tile is not None:
                    found.setdefault(region.buffer, tile)
    return found


def _tile(record: OpRecord, argument: str, plan: GemmPlan, warps: WarpPartition) -> RegisterTile | None:
    shape = plan.instruction.shape_text
    if argument == "C":
        layout = accumulator(plan.m, plan.n, warps.m, warps.n)
        return RegisterTile(f"mma {shape} accumulator, warps {warps}", layout.registers)
    tables = MMA_A if argument == "A" else MMA_B
    tile = tables.get(dtype_bits(plan.operand) or 0)
    if tile is None or tile.shape[1 if argument == "A" else 0] != plan.instruction.k:
        return None
    if argument == "A":
        layout = operand_a(plan.m, plan.k, warps.m, warps.n, tile, plan.transpose_a)
    else:
        layout = operand_b(plan.k, plan.n, warps.m, warps.n, tile, plan.transpose_b)
    return RegisterTile(f"mma {shape} operand {argument}, warps {warps}", layout.registers)
