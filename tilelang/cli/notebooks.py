"""Notebooks (`.ipynb`) for `tilelang check`: the code cells read as one text, problems told by cell and line.

A cell sees what those above it define, so they are checked together; magics (`%timeit`, `!pip`) are taken
out, and statements that are no Python are comments. No line changes its number. The path of a place
in a notebook is the file's with the number of the cell behind it, from 1 over all: `a.ipynb#3`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.span import Span
from tilelang.diagnostics.syntax import syntax_error_problem
from tilelang.facts.notebook_cells import readable_cell

SUFFIX = ".ipynb"


@dataclass(frozen=True)
class Cell:
    """A code cell: its number in the notebook from 1, its text, and its first line in the joined text."""

    number: int
    text: str
    first_line: int

    @property
    def end_line(self) -> int:
        return self.first_line + self.text.count("\n") + 1


@dataclass(frozen=True)
class Notebook:
    """The code cells of a notebook. `text` is all of them, `problems` what keeps cells from being read."""

    path: str
    cells: tuple[Cell, ...]
    text: str
    problems: tuple[Problem, ...]

    def in_cells(self, problems: Sequence[Problem]) -> list[Problem]:
        """Problems of the joined text, and their fixes, at their places in cells."""
        return [
            replace(
                p,
                span=self._place(p.span),
                related=tuple(replace(r, span=self._place(r.span)) for r in p.related),
                fixes=tuple(
                    replace(f, edits=tuple(replace(e, span=self._place(e.span)) for e in f.edits))
                    for f in p.fixes
                ),
            )
            for p in problems
        ]

    def _place(self, span: Span) -> Span:
        if span.path != self.path:
            return span
        cell = next((c for c in self.cells if c.first_line <= span.line < c.end_line), None)
        if cell is None:
            return span
        return replace(span.shifted(1 - cell.first_line), path=f"{self.path}#{cell.number}")


def is_notebook(path: str | Path) -> bool:
    return str(path).endswith(SUFFIX)


def read_notebook(path: str, text: str) -> Notebook:
    """The notebook whose JSON is `text`. Raises ValueError if it is none."""
    content = json.loads(text)
    cells = content.get("cells") if isinstance(content, dict) else None
    if not isinstance(cells, list):
        raise ValueError("it has no list of cells")
    if not _is_python(content):
        cells = []
    found: list[Cell] = []
    lines: list[str] = []
    problems: list[Problem] = []
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        code = "".join(map(str, source)) if isinstance(source, list) else str(source)
        read = readable_cell(code.split("\n"))
        made = Cell(number, code, len(lines) + 1)
        lines += read.text.split("\n")
        found.append(made)
        if read.error is not None:
            problem = syntax_error_problem(path, code, read.error)
            problems.append(problem.shifted(made.first_line - 1))
    return Notebook(path, tuple(found), "\n".join(lines), tuple(problems))


def _is_python(content: dict[str, Any]) -> bool:
    """Whether the cells are Python, which they are unless the notebook names another language."""
    metadata = content.get("metadata")
    kernel = metadata.get("kernelspec") if isinstance(metadata, dict) else None
    language = kernel.get("language") if isinstance(kernel, dict) else None
    return not isinstance(language, str) or language.lower() in ("python", "ipython", "python3")


def cell_text(path: str, number: int) -> list[str] | None:
    """The lines of a code cell, for an excerpt; None if they cannot be read."""
    try:
        notebook = read_notebook(path, Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return next((c.text.split("\n") for c in notebook.cells if c.number == number), None)
