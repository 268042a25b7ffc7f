"""Problems as a person reads them: the source line, carets under the place, related places, fixes.

The result is plain data, lines of (text, style) pieces; `render_terminal` prints them in colour, `to_text`
without. Columns of a span count code points; carets count the cells that a terminal gives to wide
characters and tabs.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from tilelang.diagnostics.fixes import apply_edits
from tilelang.diagnostics.problem import Edit, Fix, Problem
from tilelang.diagnostics.span import Span

Style = Literal["plain", "bold", "gutter", "error", "warning", "info", "hint", "help", "added", "removed"]
StyledLine = list[tuple[str, Style]]
ReadLines = Callable[[str], list[str] | None]  # path -> lines of the file, None if it cannot be read

_TAB = 4
_ELLIPSIS = "…"


def render(problem: Problem, read_lines: ReadLines, width: int = 100) -> list[StyledLine]:
    """The lines that show one problem, at most `width` cells of source per line, no blank line at the end."""
    severity: Style = problem.severity.value
    shown: list[StyledLine] = [
        [(f"{problem.severity.value}[{problem.rule}]", severity), (f": {problem.message}", "bold")]
    ]
    places = [problem.span, *(r.span for r in problem.related)]
    gutter = len(str(max(s.end_line for s in places)))
    shown += _excerpt(problem.span, read_lines, width, gutter, severity)
    for related in problem.related:
        shown.append([("note", "help"), (f": {related.message}", "plain")])
        shown += _excerpt(related.span, read_lines, width, gutter, "help", mark="-")
    for fix in problem.fixes:
        shown += _fix(fix, read_lines, gutter)
    return shown


def to_text(problems: Iterable[Problem], read_lines: ReadLines, width: int = 100) -> str:
    """All problems without colour, one blank line between them."""
    blocks = ("\n".join(plain(line) for line in render(p, read_lines, width)) for p in problems)
    return "\n\n".join(blocks)


def plain(line: StyledLine) -> str:
    """The text of a line."""
    return "".join(text for text, _ in line).rstrip()


def summary(problems: Iterable[Problem], files: int) -> str:
    """`2 errors and 1 warning in 3 files`, or that there are none."""
    counts = {"error": 0, "warning": 0, "info": 0, "hint": 0}
    for problem in problems:
        counts[problem.severity.value] += 1
    words = [f"{n} {name if n == 1 or name == 'info' else name + 's'}" for name, n in counts.items() if n]
    where = "1 file" if files == 1 else f"{files} files"
    if not words:
        return f"no problems in {where}"
    return f"{' and '.join([', '.join(words[:-1]), words[-1]] if words[1:] else words)} in {where}"


def cells(char: str) -> int:
    """How many terminal cells a character takes: 2 for wide ones, 0 for combining ones (Unicode annex 11)."""
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


@dataclass(frozen=True)
class _Displayed:
    """A source line as printed: tabs expanded, `starts[i]` the cell at which code point `i` begins."""

    text: str
    starts: list[int]

    def cell(self, column: int) -> int:
        """The cell of a column counted from 1; columns past the end continue there."""
        last = len(self.starts) - 1
        index = column - 1
        return self.starts[index] if index <= last else self.starts[last] + index - last


def _displayed(line: str) -> _Displayed:
    text, starts, at = "", [], 0
    for char in line:
        starts.append(at)
        if char == "\t":
            blanks = _TAB - at % _TAB
            text, at = text + " " * blanks, at + blanks
        else:
            printed = char if char.isprintable() else "�"
            text, at = text + printed, at + cells(printed)
    starts.append(at)
    return _Displayed(text, starts)


def _excerpt(
    span: Span, read_lines: ReadLines, width: int, gutter: int, style: Style, mark: str = "^"
) -> list[StyledLine]:
    head: StyledLine = [(f"{' ' * gutter}--> ", "gutter"), (str(span), "plain")]
    lines = read_lines(span.path)
    if lines is None or not 1 <= span.line <= len(lines):
        return [head]
    shown: list[StyledLine] = [head, [(f"{' ' * gutter} |", "gutter")]]
    last = min(span.end_line, len(lines))
    if last > span.line and span.end_column == 1:
        last -= 1  # the span ends at the beginning of a line: nothing of it is meant
    for number in _shown_numbers(span.line, last):
        if number is None:
            shown.append([(f"{'.' * gutter} |", "gutter")])
            continue
        line = lines[number - 1]
        first = span.column if number == span.line else len(line) - len(line.lstrip()) + 1
        end = span.end_column if number == span.end_line else len(line) + 1
        shown += _marked_line(line, number, first, max(end, first + 1), width, gutter, style, mark)
    return shown


def _shown_numbers(first: int, last: int) -> list[int | None]:
    """All lines of a short span, first and last of a long one with a gap (None) between."""
    if last - first < 5:
        return list(range(first, last + 1))
    return [first, None, last]


def _marked_line(
    line: str, number: int, first: int, end: int, width: int, gutter: int, style: Style, mark: str
) -> list[StyledLine]:
    display = _displayed(line)
    begin, stop = display.cell(first), max(display.cell(end), display.cell(first) + 1)
    text, begin, stop = _window(display.text, begin, stop, max(20, width - gutter - 3))
    return [
        [(f"{number:>{gutter}} | ", "gutter"), (text, "plain")],
        [(f"{' ' * gutter} | ", "gutter"), (" " * begin + mark * (stop - begin), style)],
    ]


def _window(text: str, begin: int, stop: int, room: int) -> tuple[str, int, int]:
    """The part of a long line around the marked cells, with the marks moved along."""
    total = sum(cells(c) for c in text)
    if total <= room:
        return text, begin, max(stop, begin + 1)
    # Keep a third of the room as context on the left, so that the marked text itself is seen.
    left = max(0, min(begin - room // 3, total - room))
    shown, at = "", 0
    for char in text:
        if left <= at and at + cells(char) <= left + room:
            shown += char
        at += cells(char)
    if left:
        shown = _ELLIPSIS + shown[1:]
    if left + room < total:
        shown = shown[:-1] + _ELLIPSIS
    begin = begin - left
    return shown, begin, max(begin + 1, min(stop - left, room))


def _fix(fix: Fix, read_lines: ReadLines, gutter: int) -> list[StyledLine]:
    """The title, then each changed line before and after; edits of the same lines are shown as one change."""
    shown: list[StyledLine] = [[("help", "help"), (f": {fix.title}", "plain")]]
    for edits in _by_lines(fix.edits):
        first, last = edits[0].span, edits[-1].span
        lines = read_lines(first.path)
        if lines is None or last.end_line > len(lines):
            continue
        old = lines[first.line - 1 : last.end_line]
        moved = [replace(e, span=e.span.shifted(1 - first.line)) for e in edits]
        new = apply_edits("\n".join(old), moved)
        shown += [_changed("-", text, "removed", gutter) for text in old]
        shown += [_changed("+", text, "added", gutter) for text in new.splitlines()]
    return shown


def _by_lines(edits: Iterable[Edit]) -> list[list[Edit]]:
    """`edits` in the order of the text, those that begin in a line of the one before together with it."""
    groups: list[list[Edit]] = []
    for edit in sorted(edits, key=lambda e: e.span):
        before = groups[-1][-1].span if groups else None
        if before is not None and (before.path, before.end_line) == (edit.span.path, edit.span.line):
            groups[-1].append(edit)
        else:
            groups.append([edit])
    return groups


def _changed(sign: str, text: str, style: Style, gutter: int) -> StyledLine:
    return [(f"{' ' * gutter} {sign} ", "gutter"), (_displayed(text).text, style)]
