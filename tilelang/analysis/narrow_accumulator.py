"""narrow-accumulator: products summed up in float16 for so long that small terms are lost."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tilelang.analysis.contents import History, histories
from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Fix, Problem
from tilelang.diagnostics.rules.dtype import NARROW_ACCUMULATOR
from tilelang.ir.tile_program import OpRecord
from tilelang.ir.values import as_int
from tilelang.ops.gemm import gemm_plan
from tilelang.ops.operands import declared, dtype_name
from tilelang.ops.source_edits import dtype_edit

_EXACT = 2048  # integers up to here are exact in the 11 bits of float16


def check(subject: Subject) -> Iterator[Problem]:
    """Silent where the number of terms is not known: short sums are what the option is for."""
    by_buffer = {h.buffer: h for h in subject.shared(histories)}
    for record in subject.records:
        region = record.region("C") if record.op == "gemm" else None
        if region is None or dtype_name(region.buffer) != "float16":
            continue
        plan, history = gemm_plan(record, subject.context), by_buffer.get(region.buffer.storage)
        if plan is None or history is None:
            continue
        terms = plan.k * _rounds(record, history)
        if terms >= _EXACT:
            edit = dtype_edit(region.buffer.span, subject.text, "float16", "float32")
            yield NARROW_ACCUMULATOR.at(
                record.span_of("C"),
                related=declared(region.buffer),
                fixes=() if edit is None else (Fix(f"Make {region.buffer.name} float32", (edit,)),),
                c=region.buffer.name,
                terms=terms,
            )


def _rounds(record: OpRecord, history: History) -> int:
    """How often the gemm adds to the tile before it is cleared; 1 where that is not known."""
    if as_int(record.value("clear_accum", False)) != 0:
        return 1
    cleared_in = [loop for t in history.touches if t.mode == "write" for loop in t.context.loops]
    counts = [
        as_int(extent)
        for loop in record.context.loops
        if not any(loop is other for other in cleared_in)
        for extent in loop.extents
    ]
    return prod(c or 1 for c in counts)
