"""Edits of a text, and where places of the old text are found in the new one.

This keeps the last good answer in its place while a kernel is being typed: analysis answers for one version
of the text, the edits since then carry every span to the version on the screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilelang.diagnostics.span import Span

Place = tuple[int, int]  # (line, column) from 1, columns in code points, as in Span


@dataclass(frozen=True)
class TextEdit:
    """The text between `start` and `old_end` was replaced; what followed `old_end` now follows `new_end`."""

    start: Place
    old_end: Place
    new_end: Place

    def moved(self, place: Place) -> Place:
        """A place at or after `old_end`, in the new text."""
        line, column = place
        if line == self.old_end[0]:
            return self.new_end[0], column - self.old_end[1] + self.new_end[1]
        return line - self.old_end[0] + self.new_end[0], column

    def span(self, span: Span) -> Span:
        """`span` in the new text; empty if it was replaced as a whole.

        Text typed directly before a span moves it, text typed directly behind it does not make it longer.
        """
        start, end = (span.line, span.column), (span.end_line, span.end_column)
        if end <= self.start:
            return span
        if self.start <= start and end <= self.old_end and self.start < self.old_end:
            return Span(span.path, *self.new_end, *self.new_end)
        new_start = (
            start if start < self.start else self.moved(start) if start >= self.old_end else self.new_end
        )
        new_end = self.moved(end) if end >= self.old_end else self.start
        return Span(span.path, *new_start, *new_end)


def carried(span: Span, edits: Sequence[TextEdit]) -> Span:
    """`span` after all `edits`, in the order in which they were made; empty if one of them replaced it."""
    for edit in edits:
        span = edit.span(span)
    return span


def is_empty(span: Span) -> bool:
    return (span.line, span.column) >= (span.end_line, span.end_column)


def smallest_replacement(old: str, new: str) -> tuple[int, int, str]:
    """(start, end, text): the one replacement that turns `old` into `new` and touches the least.

    For clients that send the whole text after each keystroke: without it every place would count as replaced.
    """
    limit = min(len(old), len(new))
    start = _common_prefix(old, new, limit)
    tail = 0
    while tail < limit - start and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return start, len(old) - tail, new[start : len(new) - tail]


def _common_prefix(old: str, new: str, limit: int) -> int:
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if old[:middle] == new[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
