"""A syntax error of Python's parser as a problem: one sentence and one place, wherever it is shown."""

from __future__ import annotations

import re

from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.python import SYNTAX_ERROR
from tilelang.diagnostics.span import Span

# Python marks the token that is not indented, which may be another kernel; the message names the header.
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
    return SYNTAX_ERROR.at(span, what=what[0].upper() + what[1:])


def _content(path: str, line: int, text: str) -> Span:
    """A line without its indentation."""
    first = len(text) - len(text.lstrip())
    return Span(path, line, first + 1, line, max(len(text.rstrip()), first + 1) + 1)


def _reported(path: str, lines: list[str], error: SyntaxError) -> Span:
    line = min(max(error.lineno or 1, 1), len(lines))
    column = min(max(error.offset or 1, 1), len(lines[line - 1]) + 1)
    end_line, end_column = error.end_lineno, error.end_offset
    last = end_line if end_line and line <= end_line <= len(lines) else line
    # Python 3.10 gives 0 for an unknown end.
    end = end_column if end_column and (last > line or end_column > column) else column + 1
    return Span(path, line, column, last, end)
