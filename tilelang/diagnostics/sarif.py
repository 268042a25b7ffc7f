"""Problems as SARIF 2.1.0, the format that code hosts show as annotations (OASIS, sarif-v2.1.0).

Lines and columns are ours: SARIF counts from 1 too, ends are exclusive, and `columnKind` says code points. A
place in a cell of a notebook is told by its file, with the region of the JSON that holds the text, and the
cell as a logical location (section 3.33).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from tilelang.diagnostics.pages import rule_page
from tilelang.diagnostics.problem import Fix, Problem, Severity
from tilelang.diagnostics.rule import Rule
from tilelang.diagnostics.span import Span, cell_of

InFile = Callable[[Span], Span | None]

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.INFO: "note",
    Severity.HINT: "note",
}


def to_sarif(
    problems: Iterable[Problem], rules: Mapping[str, Rule], version: str, in_file: InFile = lambda _: None
) -> str:
    """One SARIF log with one run. `version` is the version of this tool; `in_file` gives the place in the
    file of a place in a cell of a notebook, None where that is not known.
    """
    problems = list(problems)
    used = [rules[name] for name in sorted({p.rule for p in problems}) if name in rules]
    index = {rule.name: i for i, rule in enumerate(used)}
    run = {
        "tool": {"driver": {"name": "tilelang", "version": version, "rules": [_rule(r) for r in used]}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(p, index, in_file) for p in problems],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)


def _rule(rule: Rule) -> dict[str, Any]:
    described: dict[str, Any] = {
        "id": rule.name,
        "shortDescription": {"text": rule.summary},
        "defaultConfiguration": {"level": _LEVELS[rule.level]},
        "properties": {"family": rule.family, "tags": [rule.family]},
    }
    page = rule_page(rule.name)
    if page is not None:
        described["help"] = {"text": page, "markdown": page}
    return described


def _result(problem: Problem, index: Mapping[str, int], in_file: InFile) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": problem.rule,
        "level": _LEVELS[problem.severity],
        "message": {"text": problem.message},
        "locations": [_place(problem.span, in_file)],
    }
    if problem.rule in index:
        result["ruleIndex"] = index[problem.rule]
    if problem.related:
        result["relatedLocations"] = [
            {"id": i, **_place(r.span, in_file), "message": {"text": r.message}}
            for i, r in enumerate(problem.related)
        ]
    if problem.fixes:
        result["fixes"] = [_fix(f) for f in problem.fixes]
    return result


def _fix(fix: Fix) -> dict[str, Any]:
    paths = dict.fromkeys(e.span.path for e in fix.edits)
    changes = [
        {
            "artifactLocation": {"uri": _uri(path)},
            "replacements": [
                {"deletedRegion": _region(e.span), "insertedContent": {"text": e.new_text}}
                for e in fix.edits
                if e.span.path == path
            ],
        }
        for path in paths
    ]
    return {"description": {"text": fix.title}, "artifactChanges": changes}


def _place(span: Span, in_file: InFile) -> dict[str, Any]:
    file, cell = cell_of(span.path)
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(file)}}
    if cell is None:
        return {"physicalLocation": {**place, "region": _region(span)}}
    found = in_file(span)
    if found is not None:
        place["region"] = _region(found)
    logical = {"name": f"cell {cell}, line {span.line}", "fullyQualifiedName": span.path, "kind": "cell"}
    return {"physicalLocation": place, "logicalLocations": [logical]}


def _region(span: Span) -> dict[str, int]:
    return {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }


def _uri(path: str) -> str:
    """A relative reference for a relative path, a file URI for an absolute one."""
    pure = PurePath(path)
    return pure.as_uri() if pure.is_absolute() else quote(pure.as_posix())
