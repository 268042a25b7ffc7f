"""A syntax error of Python's parser as a problem: one sentence and one place, wherever it is shown."""

from __future__ import annotations

import re
import sys

from tilelang.diagnostics.problem import Problem, Severity
from tilelang.diagnostics.rules.python import SYNTAX_ERROR
from tilelang.diagnostics.span import Span

# Python marks the token that is not indented, which may be another kernel; the message names the header.
# Forms of newer Pythons, with the first that reads them.
_NEWER: tuple[tuple[re.Pattern[str], tuple[int, int]], ...] = (
    (re.compile(r"^\s*(async\s+)?def\s+\w+\s*\[.*=.*\]\s*\(|^\s*class\s+\w+\s*\[.*=.*\]"), (3, 13)),
    (re.compile(r"^\s*(async\s+)?def\s+\w+\s*\[|^\s*class\s+\w+\s*\[|^\s*type\s+\w+\s*[=\[]"), (3, 12)),
    (re.compile(r"^\s*except\s*\*"), (3, 11)),
    (re.compile(r"^\s*except\*?\s+[\w.]+\s*,.*:|\b[tT][rR]?['\"]|\b[rR][tT]['\"]"), (3, 14)),
    (re.compile(r"^\s*lazy\s+(import|from)\b"), (3, 15)),
)
_MISSING_BLOCK = re.compile(r"expected an indented block after .* on line (\d+)$")


def syntax_error_problem(path: str, text: str, error: SyntaxError) -> Problem:
    """The problem for an `error` that `ast.parse(text)` raised. Its span lies within the text.

    A block that is missing is marked at the statement that needs it.
    """
    # ast counts \n, \r\n and \r as line ends, but not \f or \x1c as str.splitlines does.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    what = error.msg or "invalid syntax"
    header = _MISSING_BLOCK.match(what)
    if header and 1 <= int(header[1]) <= len(lines):
        span = _content(path, int(header[1]), lines[int(header[1]) - 1])
    else:
        span = _reported(path, lines, error)
    what = what[0].upper() + what[1:]
    version = _newer_python(lines[span.line - 1], what) if error.lineno else None
    if version is not None and sys.version_info < version:
        # Whether it is a mistake depends on the Python that the author runs.
        here, there = (".".join(map(str, v[:2])) for v in (sys.version_info, version))
        what = (
            f"{what}: if this is meant for Python {there} or newer, check it with one; this is Python {here}"
        )
        return SYNTAX_ERROR.at(span, severity=Severity.WARNING, what=what)
    return SYNTAX_ERROR.at(span, what=what)


def _newer_python(line: str, said: str) -> tuple[int, int] | None:
    """The Python that may read a line that this one says no to."""
    if said.lower().startswith("f-string"):
        return 3, 12
    return next((version for form, version in _NEWER if form.search(line)), None)


def _content(path: str, line: int, text: str) -> Span:
    """A line without its indentation."""
    first = len(text) - len(text.lstrip())
    return Span(path, line, first + 1, line, max(len(text.rstrip()), first + 1) + 1)


def _reported(path: str, lines: list[str], error: SyntaxError) -> Span:
    if "null bytes" in (error.msg or "") and not error.lineno:
        at = next((k for k, line in enumerate(lines) if "\0" in line), 0)
        return Span(path, at + 1, lines[at].find("\0") + 1, at + 1, lines[at].find("\0") + 2)
    line = min(max(error.lineno or 1, 1), len(lines))
    column = min(max(error.offset or 1, 1), len(lines[line - 1]) + 1)
    end_line, end_column = error.end_lineno, error.end_offset
    last = end_line if end_line and line <= end_line <= len(lines) else line
    # Python 3.10 gives 0 for an unknown end.
    end = end_column if end_column and (last > line or end_column > column) else column + 1
    return Span(path, line, column, last, end)
