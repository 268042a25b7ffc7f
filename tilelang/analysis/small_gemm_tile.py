"""small-gemm-tile: a product in tiles so small that loading them takes longer than multiplying them."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.shared_memory import filled_from_global
from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.performance import SMALL_GEMM_TILE
from tilelang.ir.tile_program import OpRecord
from tilelang.ir.values import Buffer, as_int
from tilelang.ops.gemm_plan import gemm_plan

_SMALL = 32


def check(subject: Subject) -> Iterator[Problem]:
    """Only where both tensors surely go on beyond the tile: a small matrix needs no large tile."""
    sources = {b: r for r in subject.records if (b := filled_from_global(r)) is not None}
    for record in subject.records:
        plan = gemm_plan(record, subject.context) if record.op == "gemm" else None
        if plan is None or plan.m > _SMALL or plan.n > _SMALL or not record.context.loops:
            continue
        rows = _beyond(record, "A", plan.m, 1 if plan.transpose_a else 0, sources)
        columns = _beyond(record, "B", plan.n, 0 if plan.transpose_b else 1, sources)
        if rows and columns:
            yield SMALL_GEMM_TILE.at(
                record.callee_span,
                m=plan.m,
                n=plan.n,
                ratio=plan.m * plan.n / (plan.m + plan.n),
            )


def _beyond(record: OpRecord, argument: str, size: int, dim: int, sources: dict[Buffer, OpRecord]) -> bool:
    """Whether the tensor behind an operand has at least four such tiles along a dimension of the tile."""
    region = record.region(argument)
    load = sources.get(region.buffer) if region is not None else None
    source = load.region("src") if load is not None else None
    if region is None or source is None:
        return False
    rank = len(source.buffer.shape)
    if rank < 2 or len(region.buffer.shape) < 2:
        return False
    walked = [d for d, e in enumerate(source.extents) if as_int(e) != 1]  # `Q[b, i * 32 : i * 32 + 32, h, :]`
    extent = as_int(source.buffer.shape[walked[dim] if len(walked) == 2 else rank - 2 + dim])
    return extent is not None and extent >= 4 * size
