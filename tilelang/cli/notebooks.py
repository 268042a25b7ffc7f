"""Notebooks (`.ipynb`) for `tilelang check`: the code cells read as one text, problems told by cell and line.

A cell sees what those above it define, so they are checked together. Lines with magics (`%timeit`, `!pip`)
are comments there, and so are cells that are no Python on their own; no line changes its number. The path of
a place in a notebook is the file's with the number of the cell behind it, from 1 over all: `a.ipynb#3`.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.span import Span
from tilelang.diagnostics.syntax import syntax_error_problem

SUFFIX = ".ipynb"
_CELL_MAGIC = re.compile(r"\s*%%")
_MAGIC = re.compile(r"\s*[%!?]|.*\?\s*$")


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
        """Problems of the joined text at their places in cells, without fixes: nothing edits notebooks."""
        return [
            replace(
                p,
                span=self._place(p.span),
                related=tuple(replace(r, span=self._place(r.span)) for r in p.related),
                fixes=(),
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
    found: list[Cell] = []
    lines: list[str] = []
    problems: list[Problem] = []
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        code = "".join(source) if isinstance(source, list) else str(source)
        readable, error = _readable(code)
        made = Cell(number, code, len(lines) + 1)
        lines += readable.split("\n")
        found.append(made)
        if error is not None:
            problem = syntax_error_problem(path, code, error)
            problems.append(problem.shifted(made.first_line - 1))
    return Notebook(path, tuple(found), "\n".join(lines), tuple(problems))


def _readable(code: str) -> tuple[str, SyntaxError | None]:
    """The cell with magics as comments; all of it as comments, and why, if it is no Python even so."""
    lines = code.split("\n")
    if _CELL_MAGIC.match(code):
        return _commented(lines), None
    if _syntax_error(code) is None:
        return code, None  # a line such as `% 3)` ends an expression here
    text = "\n".join(f"# {line}" if _MAGIC.match(line) else line for line in lines)
    error = _syntax_error(text)
    return (text, None) if error is None else (_commented(lines), error)


def _commented(lines: Sequence[str]) -> str:
    return "\n".join(f"# {line}" for line in lines)


def _syntax_error(text: str) -> SyntaxError | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            ast.parse(text)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError) as error:
        return SyntaxError(f"the cell cannot be parsed: {error}", (None, 1, 1, None))
    return None


def cell_text(path: str, number: int) -> list[str] | None:
    """The lines of a code cell, for an excerpt; None if they cannot be read."""
    try:
        notebook = read_notebook(path, Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return next((c.text.split("\n") for c in notebook.cells if c.number == number), None)
