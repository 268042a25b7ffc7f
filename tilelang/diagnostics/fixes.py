"""Carrying out fixes: which are certain enough to be made without asking, and a text with edits made."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from tilelang.diagnostics.problem import Edit, Fix, Problem, Severity
from tilelang.diagnostics.span import Span

_LINE_END = re.compile(r"\r\n|\n|\r")


def sure_fixes(problems: Iterable[Problem], path: str) -> list[Fix]:
    """The fixes of `problems` in the file `path` that "fix all" makes, in the order of the text.

    A problem with a choice of fixes is left to its author, and so is what is only a hint (unless it is about
    text that does nothing or names that are gone). Of fixes that touch each other only the first is made:
    the next check says whether the others are still wanted.
    """
    chosen = {
        p.fixes[0]
        for p in problems
        if len(p.fixes) == 1 and (p.severity in (Severity.ERROR, Severity.WARNING) or p.tags)
    }
    taken: list[tuple[tuple[int, int], tuple[int, int]]] = []
    made: list[Fix] = []
    for fix in sorted(chosen, key=lambda f: f.edits[0].span if f.edits else Span("", 0, 0, 0, 0)):
        if not fix.edits or any(e.span.path != path for e in fix.edits):
            continue
        places = [_place(e.span) for e in fix.edits]
        if not any(_touch(place, other) for place in places for other in taken):
            taken += places
            made.append(fix)
    return made


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """`text` with all `edits` made; spans are those of the text as it was, and must not overlap.

    Lines end as in the text (\\n, \\r\\n, \\r), and so do those of what is inserted.
    """
    starts = [0, *(m.end() for m in _LINE_END.finditer(text))]
    newline = match.group() if (match := _LINE_END.search(text)) else "\n"
    for edit in sorted(edits, key=lambda e: e.span, reverse=True):
        begin = _offset(text, starts, edit.span.line, edit.span.column)
        end = _offset(text, starts, edit.span.end_line, edit.span.end_column)
        text = text[:begin] + edit.new_text.replace("\n", newline) + text[end:]
        # Those before it stay where they are; edits come from the end.
        del starts[bisect_left(starts, begin + 1) :]
    return text


def _offset(text: str, starts: Sequence[int], line: int, column: int) -> int:
    if line > len(starts):
        return len(text)
    return min(starts[line - 1] + column - 1, len(text))


def _place(span: Span) -> tuple[tuple[int, int], tuple[int, int]]:
    return (span.line, span.column), (span.end_line, span.end_column)


def _touch(a: tuple[tuple[int, int], tuple[int, int]], b: tuple[tuple[int, int], tuple[int, int]]) -> bool:
    """Whether two ranges share a place; two insertions at one place do."""
    return a[0] <= b[1] and b[0] <= a[1]
