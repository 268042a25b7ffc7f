"""The quick fix of a fragment whose elements a loop needs on other threads: the loop reads a shared copy."""

from __future__ import annotations

import ast
import re

from tilelang.analysis.subject import Subject
from tilelang.analysis.written_statements import indent_of, line_span, statements_around
from tilelang.diagnostics.problem import Edit, Fix
from tilelang.diagnostics.span import Span
from tilelang.ir.tile_program import Access
from tilelang.ops.source_edits import end_of, lone_statement_indent, span_text, text_of


def shared_copy(subject: Subject, touched: list[Access]) -> tuple[Fix, ...]:
    """Let a shared tile, a copy of a fragment, serve where one parallel region touches the fragment.

    Only where it is read, and the region has not written to the fragment before: the copy has what it held in
    front of the loop.
    """
    if not touched or any(a.mode == "write" or _comes_after_write(subject, a) for a in touched):
        return ()
    buffer = touched[0].buffer
    loop = next(x for x in touched[0].context.loops if x.kind == "Parallel")
    allocation, statements = buffer.span, statements_around(subject, loop.span)
    statement = statements[-1] if statements else None
    shared = f"{buffer.name}_shared"
    language, _, function = span_text(allocation, subject.text).partition("(")[0].rpartition(".")
    if not language or function != "alloc_fragment" or not isinstance(statement, ast.For):
        return ()
    indent = indent_of(subject, statement)
    if indent.strip() or re.search(rf"\b{shared}\b", subject.text):
        return ()
    whole = Span(allocation.path, buffer.name_span.line, buffer.name_span.column, *_end(allocation))
    before = lone_statement_indent(whole, subject.text)
    if before is None or not _reaches(statements_around(subject, whole), statements):
        return ()
    made = span_text(whole, subject.text)
    if not re.match(rf"{buffer.name}\s*=\s*{re.escape(language)}\.alloc_fragment\(", made):
        return ()
    made = made.replace(buffer.name, shared, 1).replace("alloc_fragment", "alloc_shared", 1)
    places = dict.fromkeys(a.span for a in touched)
    if not all(text_of(s, subject.text).startswith(f"{buffer.name}[") for s in places):
        return ()
    line_end = Span(allocation.path, allocation.end_line + 1, 1, allocation.end_line + 1, 1)
    edits = (
        Edit(line_end, f"{before}{made}\n"),
        Edit(line_span(loop.span.path, statement), f"{language}.copy({buffer.name}, {shared})\n{indent}"),
        *(Edit(_name(s, buffer.name), shared) for s in places),
    )
    return (Fix(f"Read a shared copy of {buffer.name}", edits),)


def _end(span: Span) -> tuple[int, int]:
    at = end_of(span)
    return at.line, at.column


def _name(access: Span, name: str) -> Span:
    return Span(access.path, access.line, access.column, access.line, access.column + len(name))


def _reaches(allocation: list[ast.stmt], loop: list[ast.stmt]) -> bool:
    """Whether the loop stands behind the allocation, in the same block or in one inside it."""
    block = allocation[:-1]
    return (
        bool(allocation) and loop[: len(block)] == block and loop[len(block)].lineno > allocation[-1].lineno
    )


def _comes_after_write(subject: Subject, read: Access) -> bool:
    """Whether the region may have written to the fragment when it reads it here."""
    region = next(x for x in read.context.loops if x.kind == "Parallel")
    inside = read.context.loops[read.context.loops.index(region) :]
    repeats = any(loop.kind != "Parallel" for loop in inside)
    for access in subject.program.accesses:
        if access is read and not repeats:
            return False
        same = access.buffer.storage is read.buffer.storage and region in access.context.loops
        if same and access.mode == "write":
            return True
    return False
