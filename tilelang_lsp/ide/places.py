"""What stands at a place of the text. Lines and columns from 1, in code points."""

from __future__ import annotations

from tilelang.diagnostics.span import Span
from tilelang.facts.kernel_facts import BufferFact, KernelFacts


def contains(span: Span, line: int, column: int) -> bool:
    """Whether the place lies in `span`, or directly behind it, where a cursor stands after typing a name."""
    start, end = (span.line, span.column), (span.end_line, span.end_column)
    return start != end and start <= (line, column) <= end


def overlaps(a: Span, b: Span) -> bool:
    """Whether two spans share a place; touching counts."""
    return (a.line, a.column) <= (b.end_line, b.end_column) and (b.line, b.column) <= (
        a.end_line,
        a.end_column,
    )


def buffer_spans(facts: KernelFacts, buffer: int) -> list[Span]:
    """Where the buffer's name stands, its binding first."""
    binding = facts.buffers[buffer].name_span
    return [binding, *(u.span for u in facts.uses if u.buffer == buffer and u.span != binding)]


def buffer_at(facts: KernelFacts, line: int, column: int) -> tuple[int, Span] | None:
    """(index, span of the name) of the buffer whose name stands here."""
    for use in facts.uses:
        if contains(use.span, line, column):
            return use.buffer, use.span
    for index, buffer in enumerate(facts.buffers):
        if contains(buffer.name_span, line, column):
            return index, buffer.name_span
    return None


def is_allocation(buffer: BufferFact) -> bool:
    return buffer.role is None


def callee(span: Span, line_text: str) -> Span:
    """The part of a call before its parenthesis; `line_text` is the line on which it begins."""
    end = line_text.find("(", span.column - 1)
    return Span(span.path, span.line, span.column, span.line, end + 1) if end >= 0 else span
