"""Diagnostics: everything known to be wrong in a file now, once each, in the order of the text."""

from __future__ import annotations

from collections.abc import Iterable

from tilelang.diagnostics.problem import Problem


def diagnostics(*groups: Iterable[Problem]) -> list[Problem]:
    """All problems of `groups`, none twice at one place; at one place the graver ones first."""
    seen: dict[tuple, Problem] = {}
    for problem in (p for group in groups for p in group):
        key = (problem.span, problem.rule, problem.message)
        before = seen.get(key)
        if before is None or problem.severity.rank < before.severity.rank:
            seen[key] = problem
    return sorted(seen.values(), key=lambda p: (p.span, p.severity.rank, p.rule))
