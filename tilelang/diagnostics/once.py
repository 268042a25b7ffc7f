"""What a macro or a helper shows to each of its callers, told once: one problem, and every call beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tilelang.diagnostics.problem import CALLED_HERE, Problem, Related

_MOST_RELATED = 12  # places beside one problem: a helper may have a hundred callers


def once(groups: Iterable[Sequence[Problem]]) -> list[list[Problem]]:
    """The same groups (of kernels, of files) without what an earlier problem of the same place says, which
    gets the calls and the gravity of both. Of several messages the gravest is kept, else the first.
    """
    kept: list[list[Problem]] = []
    known: dict[tuple[str, object], list[tuple[int, int]]] = {}
    for problems in groups:
        left: list[Problem] = []
        kept.append(left)
        for problem in problems:
            same = known.setdefault((problem.rule, problem.span), [])
            at = next(((g, k) for g, k in same if _is_one(kept[g][k], problem)), None)
            if at is None:
                same.append((len(kept) - 1, len(left)))
                left.append(problem)
            else:
                kept[at[0]][at[1]] = _both(kept[at[0]][at[1]], problem)
    return kept


def _is_one(a: Problem, b: Problem) -> bool:
    """Whether two problems of one rule at one place are one: they say the same, or come by other calls."""
    if a.message == b.message:
        return True
    calls, others = _calls(a), _calls(b)
    return bool(calls and others) and not set(others) <= set(calls)


def _both(a: Problem, b: Problem) -> Problem:
    first, second = (b, a) if b.severity.rank < a.severity.rank else (a, b)
    added = second.related if a.message == b.message else _calls(second)
    related = (*first.related, *(r for r in added if r not in first.related))
    return replace(first, related=related[: max(_MOST_RELATED, len(first.related))])


def _calls(problem: Problem) -> tuple[Related, ...]:
    return tuple(r for r in problem.related if r.message == CALLED_HERE)
