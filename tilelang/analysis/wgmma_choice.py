"""Which gemms of a program become wgmma on sm_90a: what `targets.cuda.ops.wgmma` decides, before lowering."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilelang.arch.cuda import DISABLE_WGMMA, WGMMA_SM
from tilelang.ir.tile_program import TileProgram
from tilelang.ir.values import Buffer, as_int
from tilelang.layout.annotated import LAYOUTS, read_annotations
from tilelang.layout.shared import matrix_operand
from tilelang.ops.gemm_plan import gemm_plan
from tilelang.ops.operands import dtype_bits, dtype_name
from tilelang.ops.tile_op import CheckContext, WgmmaChoice


def wgmma_choice(program: TileProgram, context: CheckContext) -> WgmmaChoice | None:
    """The choice for a program; None where the target has no wgmma or the kernel refuses it."""
    if context.target.kind != "cuda" or context.target.sm != WGMMA_SM or program.attrs.get(DISABLE_WGMMA):
        return None
    choice = WgmmaChoice(frozenset(_unswizzled(program)))
    gemms = [r for r in program.ops() if r.op == "gemm"]
    while True:
        others: set[Buffer] = set()
        for record in gemms:
            plan = gemm_plan(record, replace(context, wgmma=choice))
            if plan is None or plan.instruction.name != "wgmma":
                found = (record.region(name) for name in ("A", "B", "C"))
                others |= {r.buffer for r in found if r is not None and r.buffer.scope == "local.fragment"}
        if others <= choice.refused:
            return choice
        choice = replace(choice, refused=choice.refused | others)


def _unswizzled(program: TileProgram) -> Iterator[Buffer]:
    """Tiles that have another name, and those whose author wants another layout than the operand's."""
    yield from (b.storage for b in program.buffers if b.view_of is not None)
    annotations = read_annotations(program.attrs.get(LAYOUTS, "{}"))
    for buffer in program.buffers:
        annotated = annotations.get(buffer.name)
        if annotated is None or annotated.kind == "auto" or buffer.scope != "shared":
            continue
        shape = tuple(n for n in map(as_int, buffer.shape) if n is not None)
        bits = dtype_bits(dtype_name(buffer))
        if (
            bits is None
            or len(shape) != len(buffer.shape)
            or len(shape) < 2
            or annotated.shared(shape, bits) != matrix_operand(shape, bits)
        ):
            yield buffer.storage
