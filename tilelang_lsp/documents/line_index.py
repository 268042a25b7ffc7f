"""Lines of a text as the protocol counts them, and columns in code points, UTF-8, UTF-16 or UTF-32 units.

Only ``\\n``, ``\\r\\n`` and ``\\r`` end a line, for editors as for Python's own tokenizer; ``str.splitlines``
also splits at form feeds, ``\\x85`` and others, and everything below one would then stand on a wrong line.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Literal

Encoding = Literal["utf-8", "utf-16", "utf-32"]

_LINE_END = re.compile(r"\r\n|\n|\r")


class LineIndex:
    """Where the lines of one text begin. Lines and columns here count from 0, columns in code points."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *(m.end() for m in _LINE_END.finditer(text))]

    @property
    def n_lines(self) -> int:
        return len(self._starts)

    def line(self, line: int) -> str:
        """The text of a line without its end; "" for a line that does not exist."""
        if not 0 <= line < len(self._starts):
            return ""
        end = self._starts[line + 1] if line + 1 < len(self._starts) else len(self.text)
        return self.text[self._starts[line] : end].rstrip("\r\n")

    def offset(self, line: int, column: int) -> int:
        """Code point offset of a place; places past the end of a line or of the text are moved back to it."""
        if line < 0:
            return 0
        if line >= len(self._starts):
            return len(self.text)
        return self._starts[line] + min(max(column, 0), len(self.line(line)))

    def place(self, offset: int) -> tuple[int, int]:
        """(line, column) of a code point offset."""
        line = bisect_right(self._starts, offset) - 1
        return line, offset - self._starts[line]


def column_from_units(line_text: str, units: int, encoding: Encoding) -> int:
    """Code point column of a column in units of `encoding`; past the end of the line gives its end."""
    if encoding == "utf-32" or line_text.isascii():
        return min(units, len(line_text))
    seen = 0
    for column, char in enumerate(line_text):
        if seen >= units:
            return column
        seen += _units(char, encoding)
    return len(line_text)


def units_from_column(line_text: str, column: int, encoding: Encoding) -> int:
    """Column in units of `encoding` of a code point column."""
    prefix = line_text[:column]
    if encoding == "utf-32" or prefix.isascii():
        return len(prefix)
    return sum(_units(char, encoding) for char in prefix)


def _units(char: str, encoding: Encoding) -> int:
    code = ord(char)
    if encoding == "utf-16":
        return 2 if code > 0xFFFF else 1
    return 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4
