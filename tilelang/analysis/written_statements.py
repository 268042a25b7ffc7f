"""The statements of the module's text around a place, for quick fixes that move or rewrite statements."""

from __future__ import annotations

import ast

from tilelang.analysis.subject import Subject
from tilelang.diagnostics.span import Span, text_lines


def statements_around(subject: Subject, span: Span) -> list[ast.stmt]:
    """The statements that hold a place, from outside in; none where the text is not at hand."""
    tree = subject.tree
    if tree is None or span.path != subject.program.span.path:
        return []
    lines = text_lines(subject.text)
    if not 0 < span.line <= len(lines):
        return []
    at = (span.line, len(lines[span.line - 1][: span.column - 1].encode()))  # ast counts bytes
    found: list[ast.stmt] = []
    body: list[ast.stmt] = tree.body
    while True:
        inner = next((s for s in body if _begin(s) <= at < _end(s)), None)
        if inner is None:
            return found
        found.append(inner)
        body = _nested(inner)


def indent_of(subject: Subject, statement: ast.stmt) -> str:
    """What stands before a statement on its first line."""
    line = text_lines(subject.text)[statement.lineno - 1]
    return line.encode()[: statement.col_offset].decode()


def line_span(path: str, statement: ast.stmt) -> Span:
    """The empty span where a statement begins that only white space stands before."""
    column = statement.col_offset + 1
    return Span(path, statement.lineno, column, statement.lineno, column)


def expression_span(subject: Subject, path: str, node: ast.expr) -> Span:
    """The place of an expression of these statements."""
    lines = text_lines(subject.text)

    def column(line: int, offset: int) -> int:
        return len(lines[line - 1].encode()[:offset].decode()) + 1

    end_line, end_offset = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    start = column(node.lineno, node.col_offset)
    return Span(path, node.lineno, start, end_line, column(end_line, end_offset))


def _begin(statement: ast.stmt) -> tuple[int, int]:
    return statement.lineno, statement.col_offset


def _end(statement: ast.stmt) -> tuple[int, int]:
    return statement.end_lineno or statement.lineno, statement.end_col_offset or statement.col_offset


def _nested(statement: ast.stmt) -> list[ast.stmt]:
    parts = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
    return [s for part in parts for s in part]
