"""Problems as JSON: the flat objects that `tilelang check --format json` prints."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.span import cell_of


def to_objects(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    """One object per problem: `path`, `line`, `column` (from 1, code points), `end_line`, `end_column`
    (just past the last character), `severity`, `code` (the rule's name), `message`. In a notebook also
    `cell`, its number from 1 over all cells; lines then count in the cell.
    """
    return [
        {
            "path": cell_of(p.span.path)[0],
            **_cell(p.span.path),
            "line": p.span.line,
            "column": p.span.column,
            "end_line": p.span.end_line,
            "end_column": p.span.end_column,
            "severity": p.severity.value,
            "code": p.rule,
            "message": p.message,
        }
        for p in problems
    ]


def _cell(path: str) -> dict[str, int]:
    cell = cell_of(path)[1]
    return {} if cell is None else {"cell": cell}


def to_json(problems: Iterable[Problem]) -> str:
    """The objects of `to_objects` as one indented list."""
    return json.dumps(to_objects(problems), indent=2, ensure_ascii=False)
