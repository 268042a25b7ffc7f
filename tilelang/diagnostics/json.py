"""Problems as JSON: the objects that `tilelang check --format json` prints."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.span import Span, cell_of


def to_objects(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    """One object per problem: `path`, `line`, `column` (from 1, code points), `end_line`, `end_column`
    (just past the last character), `severity`, `code` (the rule's name), `message`. In a notebook also
    `cell`, its number from 1 over all cells; lines then count in the cell. Where there are any: `related`,
    other places with a `message` each; `fixes`, each a `title` and its `edits`, places with the `text` that
    replaces what is there; `tags`.
    """
    return [_object(p) for p in problems]


def _object(problem: Problem) -> dict[str, Any]:
    found: dict[str, Any] = {
        **_place(problem.span),
        "severity": problem.severity.value,
        "code": problem.rule,
        "message": problem.message,
    }
    if problem.related:
        found["related"] = [{**_place(r.span), "message": r.message} for r in problem.related]
    if problem.fixes:
        found["fixes"] = [
            {"title": f.title, "edits": [{**_place(e.span), "text": e.new_text} for e in f.edits]}
            for f in problem.fixes
        ]
    if problem.tags:
        found["tags"] = list(problem.tags)
    return found


def _place(span: Span) -> dict[str, Any]:
    path, cell = cell_of(span.path)
    return {
        "path": path,
        **({} if cell is None else {"cell": cell}),
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
    }


def to_json(problems: Iterable[Problem]) -> str:
    """The objects of `to_objects` as one indented list."""
    return json.dumps(to_objects(problems), indent=2, ensure_ascii=False)
