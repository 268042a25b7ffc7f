"""Places in source text: lines and columns from 1, columns in Unicode code points, ends exclusive."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache


@dataclass(frozen=True, order=True)
class Span:
    """A range of text in one file. `end_column` points just past the last character.

    via: the call through which the interpreter came here, where it is in a macro or a helper. It is no part
    of the place: two spans of one range are equal, whoever called.
    """

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    via: Span | None = field(default=None, compare=False, repr=False)

    def reached(self, via: Span) -> Span:
        """The same range, come to through the call `via`."""
        return Span(self.path, self.line, self.column, self.end_line, self.end_column, via)

    def shifted(self, lines: int) -> Span:
        """The same range after `lines` lines were inserted (negative: removed) above it."""
        return replace(self, line=self.line + lines, end_line=self.end_line + lines)

    def to_json(self) -> list[int | str]:
        return [self.path, self.line, self.column, self.end_line, self.end_column]

    @staticmethod
    def from_json(data: list) -> Span:
        return Span(*data)

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


def cell_of(path: str) -> tuple[str, int | None]:
    """The file and the cell of a path that names a cell of a notebook, as in `a.ipynb#3`; None for others."""
    file, sign, number = path.rpartition("#")
    if sign and file.endswith(".ipynb") and number.isdigit():
        return file, int(number)
    return path, None


@lru_cache(maxsize=4)  # rules ask for the lines of one file at every kernel of it
def text_lines(text: str) -> tuple[str, ...]:
    r"""The lines of a Python source as `ast` counts them: \n, \r\n and \r end one, but not \f or \x1c, as for
    `str.splitlines`.
    """
    return tuple(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))


class FileText(str):
    """The text of a file that knows whose it is, so that no place of another file is looked up in it."""

    path: str

    @staticmethod
    def of(path: str, text: str) -> FileText:
        made = FileText(text)
        made.path = path
        return made


def lines_of(span: Span, source: str) -> tuple[str, ...]:
    """The lines of the text in which a place stands; none where `source` is another file's."""
    if isinstance(source, FileText) and source.path != span.path:
        return ()
    return text_lines(source)
