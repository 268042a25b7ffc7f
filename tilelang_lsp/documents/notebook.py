"""An open notebook: its code cells, read as one Python text, since a cell sees what those above it define.

Magics (`%timeit`, `!pip`) are taken out. What does not parse is a comment to the analysis; in the text that
the editor's answers are about it stays as it is typed: kernels that were known there stay, moved along, and
all others are analysed. No line changes its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.syntax import syntax_error_problem
from tilelang.facts.notebook_cells import readable_cell
from tilelang_lsp.documents.document import Document


@dataclass(frozen=True)
class CellPlace:
    """Where a cell stands: its lines in the text of the whole notebook, from 0, the last one excluded."""

    uri: str
    first_line: int
    end_line: int


class Notebook:
    """The cells of a notebook. `order` has the URIs of all, `cells` the texts of those that are Python."""

    def __init__(self, uri: str, path: str, order: Sequence[str], cells: dict[str, Document]) -> None:
        self.uri = uri
        self.path = path
        self.order = list(order)
        self.cells = cells

    def read(self) -> NotebookText:
        """The notebook as one text."""
        lines: list[str] = []
        typed: list[str] = []
        broken: list[tuple[int, int]] = []
        is_ours = False
        places: list[CellPlace] = []
        problems: list[Problem] = []
        for uri in self.order:
            document = self.cells.get(uri)
            if document is None:
                continue
            is_ours = is_ours or "tilelang" in document.text
            given = [document.index.line(n) for n in range(document.index.n_lines)]
            read = readable_cell(given)
            first = len(lines)
            lines += read.text.split("\n")
            typed += read.text.split("\n")
            for start, end in read.broken:
                typed[first + start : first + end] = given[start:end]
                broken.append((first + start, first + end))
            places.append(CellPlace(uri, first, len(lines)))
            if read.error is not None:
                problems.append(syntax_error_problem(self.path, "\n".join(given), read.error).shifted(first))
        return NotebookText(
            "\n".join(lines),
            "\n".join(typed),
            tuple(places),
            tuple(broken),
            tuple(problems) if is_ours else (),
            is_ours,
        )


@dataclass(frozen=True)
class NotebookText:
    """A whole notebook as Python: its text, where the cells stand in it, and the syntax errors of cells.

    `typed`: the same with the lines that do not parse as they are; `broken`: which these are, from 0, the
    last one excluded. `is_ours`: some cell uses the language; other notebooks' errors are told by the Python
    server beside us.
    """

    text: str
    typed: str
    places: tuple[CellPlace, ...]
    broken: tuple[tuple[int, int], ...]
    problems: tuple[Problem, ...]
    is_ours: bool

    def cell(self, uri: str) -> CellPlace | None:
        return next((p for p in self.places if p.uri == uri), None)

    def cell_at(self, line: int) -> CellPlace | None:
        """The cell of a line, from 0."""
        return next((p for p in self.places if p.first_line <= line < p.end_line), None)

    def is_broken(self, line: int) -> bool:
        """Whether a line, from 0, is of a statement that does not parse."""
        return any(first <= line < end for first, end in self.broken)
