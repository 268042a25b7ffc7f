"""Fragments whose layout a T.gemm fixes: the accumulator, and operands kept in registers."""

from __future__ import annotations

from dataclasses import dataclass

from tilelang.analysis.subject import Subject
from tilelang.arch.tables import features
from tilelang.ir.values import Buffer
from tilelang.layout.gemm_operands import gemm_fragments
from tilelang.ops.gemm_plan import gemm_plan
from tilelang.ops.operands import dtype_bits


@dataclass(frozen=True)
class RegisterTile:
    """What is known of one fragment: a line for people, and the elements that each thread holds."""

    text: str
    elements: int


def register_tiles(subject: Subject) -> dict[Buffer, RegisterTile]:
    """Fragment -> its layout, for fragments that are whole operands of a T.gemm on matrix instructions."""
    found: dict[Buffer, RegisterTile] = {}
    kind, unit = subject.target.kind, features(subject.target).unit
    for record in subject.records:
        plan = gemm_plan(record, subject.context) if record.op == "gemm" else None
        bits = dtype_bits(plan.operand) if plan is not None else None
        if plan is None or plan.warps is None or bits is None:
            continue
        transposes = (plan.transpose_a, plan.transpose_b)
        wgmma = plan.instruction.name == "wgmma"
        layouts = gemm_fragments(
            "wgmma" if wgmma else kind,
            (plan.m, plan.n, plan.k),
            transposes,
            plan.warps,
            bits,
            plan.instruction.k,
        )
        for argument, layout in (("C", layouts.c), ("A", layouts.a), ("B", layouts.b)):
            region = record.region(argument)
            if region is not None and region.whole and region.buffer.scope == "local.fragment":
                role = "accumulator" if argument == "C" else f"operand {argument}"
                text = (
                    f"{'wgmma' if wgmma else unit} {plan.instruction.shape_text} {role}, warps {plan.warps}"
                )
                found.setdefault(region.buffer, RegisterTile(text, layout.registers))
    return found
