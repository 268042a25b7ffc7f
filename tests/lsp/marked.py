"""Texts with a cursor in them: `<|>` marks the place that a test is about, `<[...]>` a span."""

from __future__ import annotations

import textwrap

from tilelang.diagnostics.span import Span
from tilelang_lsp.documents.line_index import LineIndex

CURSOR = "<|>"


def marked(text: str) -> tuple[str, int, int]:
    """(text without the marker, line, column) of the one `<|>`; the text is dedented."""
    text = textwrap.dedent(text)
    before, marker, after = text.partition(CURSOR)
    assert marker and CURSOR not in after, "a marked text has exactly one cursor"
    line, column = LineIndex(before).place(len(before))
    return before + after, line + 1, column + 1


def span_of(text: str, part: str, nth: int = 0, path: str = "k.py") -> Span:
    """The span of the nth occurrence of `part`."""
    start = -1
    for _ in range(nth + 1):
        start = text.index(part, start + 1)
    index = LineIndex(text)
    (line, column), (end_line, end_column) = index.place(start), index.place(start + len(part))
    return Span(path, line + 1, column + 1, end_line + 1, end_column + 1)


def text_at(text: str, span: Span) -> str:
    """The text a span covers."""
    index = LineIndex(text)
    start = index.offset(span.line - 1, span.column - 1)
    return text[start : index.offset(span.end_line - 1, span.end_column - 1)]
