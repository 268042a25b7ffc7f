"""uninitialised-accumulator: T.gemm adds to a tile that holds nothing yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilelang.analysis.bounds import first_value
from tilelang.analysis.contents import History, Touch, histories
from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Edit, Fix, Problem
from tilelang.diagnostics.rules.order import UNINITIALISED_ACCUMULATOR
from tilelang.diagnostics.span import lines_of
from tilelang.ir.tile_program import OpRecord
from tilelang.ir.values import Buffer, Unknown, as_int
from tilelang.ops.operands import declared
from tilelang.ops.registry import PRODUCTS
from tilelang.ops.source_edits import text_of


def check(subject: Subject) -> Iterator[Problem]:
    """The first T.gemm into each tile. Who gives `clear_accum` as an expression took care of it, unless it is
    certainly False where the product is computed for the first time.
    """
    for history in subject.shared(histories):
        first = next((t for t in history.touches if _adds(subject, t)), None)
        if first is None or first.record is None or history.may_hold_something(first):
            continue
        yield UNINITIALISED_ACCUMULATOR.at(
            first.span,
            related=declared(history.buffer),
            fixes=_fixes(subject, history, first.record),
            buffer=history.buffer.name,
        )


def _adds(subject: Subject, touch: Touch) -> bool:
    record = touch.record
    if record is None or record.op not in PRODUCTS or touch.mode != "update":
        return False
    clear = record.value("clear_accum", False)
    if as_int(clear) is not None or isinstance(clear, Unknown):
        return as_int(clear) == 0
    # With a condition around it, or in a loop that may be empty at first, it runs first in a later iteration.
    each_time = not touch.context.guards and touch.steady.issuperset(touch.context.loops)
    return each_time and first_value(subject, clear) == 0


def _fixes(subject: Subject, history: History, record: OpRecord) -> tuple[Fix, ...]:
    edit = _clear_after_allocation(subject, history.buffer, record)
    return () if edit is None else (Fix(f"Insert T.clear({history.buffer.name})", (edit,)),)


def _clear_after_allocation(subject: Subject, buffer: Buffer, record: OpRecord) -> Edit | None:
    """A line behind the allocation, spelled like the gemm: `T.clear(acc)`."""
    language, dot, _ = text_of(record.callee_span, subject.text).rpartition(".")
    lines = lines_of(buffer.span, subject.text)
    line = buffer.span.end_line
    if not dot or line >= len(lines) or buffer.name_span.line != buffer.span.line:
        return None
    if not lines[buffer.span.line - 1][: buffer.name_span.column - 1].isspace():
        return None  # a tuple on the left, or two statements on the line
    indent = " " * (buffer.name_span.column - 1)
    place = replace(buffer.span, line=line + 1, column=1, end_line=line + 1, end_column=1)
    return Edit(place, f"{indent}{language}.clear({buffer.name})\n")
