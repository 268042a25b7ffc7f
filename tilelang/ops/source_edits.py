"""Edits of calls for quick fixes, made from the spans that records keep."""

from __future__ import annotations

from dataclasses import replace

from tilelang.diagnostics.problem import Edit
from tilelang.diagnostics.span import Span
from tilelang.ir.tile_program import OpRecord


def replace_argument(record: OpRecord, name: str, value: str) -> Edit | None:
    """Write another value for an argument that the call gives; None if the call leaves it out."""
    operand = record.operands.get(name)
    if operand is None or operand.span == record.span:
        return None
    return Edit(operand.span, value)


def append_argument(record: OpRecord, argument: str) -> Edit | None:
    """Add `name=value` after the last argument of the call; None if no argument has a place of its own."""
    spans = [o.span for o in record.operands.values() if o.span != record.span]
    if not spans:
        return None
    last = max(spans, key=lambda s: (s.end_line, s.end_column))
    return Edit(end_of(last), f", {argument}")


def end_of(span: Span) -> Span:
    """The empty span just behind `span`."""
    return replace(span, line=span.end_line, column=span.end_column)


def text_of(span: Span, source: str) -> str:
    """The text of a span on one line; empty if it covers several or the source is not at hand."""
    lines = source.splitlines()
    if span.line != span.end_line or not 0 < span.line <= len(lines):
        return ""
    return lines[span.line - 1][span.column - 1 : span.end_column - 1]


def rename_callee(call: Span, source: str, new_name: str) -> Edit | None:
    """Replace the last part of the name that a call begins with: `T.alloc_shared(` -> `T.alloc_fragment(`."""
    lines = source.splitlines()
    if not 0 < call.line <= len(lines):
        return None
    rest = lines[call.line - 1][call.column - 1 :]
    callee, paren, _ = rest.partition("(")
    if not paren or not all(part.isidentifier() for part in callee.split(".")):
        return None
    start = call.column + len(callee) - len(callee.rpartition(".")[2])
    return Edit(Span(call.path, call.line, start, call.line, call.column + len(callee)), new_name)
