"""narrow-accumulator: products summed up in float16 for so long that small terms are lost."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.analysis.contents import History, histories
from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Fix, Problem
from tilelang.diagnostics.rules.dtype import NARROW_ACCUMULATOR
from tilelang.ir.tile_program import Loop, OpRecord
from tilelang.ir.values import as_int
from tilelang.ops.gemm_plan import gemm_plan
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
    loops = record.context.loops
    clear = record.value("clear_accum", False)
    if as_int(clear) != 0:
        # `k == 0` starts over once for every time that the loop over k is come to.
        first = next((n for n, loop in enumerate(loops) if _is_first_of(clear, loop)), None)
        if first is None:
            return 1
        loops = loops[first:]
    cleared_in = [loop for t in history.touches if t.mode == "write" for loop in t.context.loops]
    counts = [
        as_int(extent)
        for loop in loops
        if not any(loop is other for other in cleared_in)
        for extent in loop.extents
    ]
    return prod(c or 1 for c in counts)


def _is_first_of(condition: Any, loop: Loop) -> bool:
    """Whether a condition holds in the first iteration of a loop and in no other."""
    if not isinstance(condition, X.EQ) or len(loop.vars) != 1:
        return False
    sides = (condition.a, condition.b), (condition.b, condition.a)
    return any(
        isinstance(var, ir.Var) and var.same_as(loop.vars[0]) and _same(at, loop.mins[0]) for var, at in sides
    )


def _same(value: Any, start: Any) -> bool:
    number = as_int(value)
    return number is not None and number == as_int(start)
