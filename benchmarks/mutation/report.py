"""The shares in tables: by kind of mutation, by rule; the mutants missed or wrongly called errors."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from benchmarks.mutation.measure import Result


def tables(results: Sequence[Result]) -> str:
    """Shares by kind and by rule, as text."""
    return "\n".join([*_by_kind(results), "", *_by_rule(results)])


def _by_kind(results: Sequence[Result]) -> Iterable[str]:
    kinds = list(dict.fromkeys(r.mutant.kind for r in results))
    names = ("mutants", "wrong", "by rule", "caught", "share", "anywhere", "right", "errors", "warned")
    yield f"{'kind':<18}" + "".join(f"{name:>10}" for name in (*names, "unjudged"))
    for kind in kinds:
        yield _row(kind, [r for r in results if r.mutant.kind == kind])
    yield _row("all", results)
    shares = [
        share
        for kind in kinds
        if (share := _share([r for r in results if r.mutant.kind == kind])) is not None
    ]
    yield f"mean over kinds: {100 * sum(shares) / max(len(shares), 1):.1f} %"


def _row(name: str, results: Sequence[Result]) -> str:
    wrong = [r for r in results if r.verdict == "wrong"]
    right = [r for r in results if r.verdict == "right"]
    by_rule = sum(r.by_language for r in wrong)
    caught = sum(bool(r.found_in_place) for r in wrong)
    anywhere = sum(bool(r.grave) for r in wrong)
    errors = sum(r.error for r in right)
    warned = sum(bool(r.grave) for r in right) - errors
    unjudged = len(results) - len(wrong) - len(right)
    share = _share(results)
    shown = "-" if share is None else f"{100 * share:.1f} %"
    cells = (len(results), len(wrong), by_rule, caught, shown, anywhere, len(right), errors, warned, unjudged)
    return f"{name:<18}" + "".join(f"{cell:>10}" for cell in cells)


def _share(results: Sequence[Result]) -> float | None:
    wrong = [r for r in results if r.verdict == "wrong"]
    return sum(bool(r.found_in_place) for r in wrong) / len(wrong) if wrong else None


def _by_rule(results: Sequence[Result]) -> Iterable[str]:
    caught, alone, errors, warned = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for result in results:
        rules = {s.rule for s in (result.found_in_place if result.verdict == "wrong" else result.grave)}
        if result.verdict == "wrong":
            caught.update(rules)
            alone.update(rules if len(rules) == 1 else ())
        elif result.verdict == "right":
            errors.update({s.rule for s in result.grave if s.severity == "error"})
            warned.update({s.rule for s in result.grave if s.severity == "warning"})
    yield f"{'rule':<34}{'caught':>8}{'alone':>7}{'errors on right':>17}{'warnings on right':>19}"
    for rule in sorted({*caught, *errors, *warned}, key=lambda r: (-caught[r], r)):
        yield f"{rule:<34}{caught[rule]:>8}{alone[rule]:>7}{errors[rule]:>17}{warned[rule]:>19}"


def false_errors(results: Iterable[Result]) -> list[str]:
    """Right mutants with an error: each is a fault of a rule."""
    return [
        _told(
            r, "; ".join(f"[{s.rule}] line {s.first}: {s.message}" for s in r.grave if s.severity == "error")
        )
        for r in results
        if r.verdict == "right" and r.error
    ]


def warned(results: Iterable[Result]) -> list[str]:
    """Right mutants with a warning."""
    return [
        _told(r, "; ".join(f"[{s.rule}] line {s.first}: {s.message}" for s in r.grave))
        for r in results
        if r.verdict == "right" and r.grave and not r.error
    ]


def misses(results: Iterable[Result]) -> list[str]:
    """Wrong mutants without an error or warning in place, the largest groups first."""
    groups: dict[str, list[str]] = defaultdict(list)
    for r in results:
        if r.verdict == "wrong" and not r.found_in_place:
            elsewhere = (
                f" (elsewhere: {', '.join(f'{s.rule}@{s.first}' for s in r.grave)})" if r.grave else ""
            )
            failed = f" (check failed: {r.failed})" if r.failed else ""
            groups[r.mutant.kind].append(_told(r, r.why + elsewhere + failed))
    return [line for kind in sorted(groups, key=lambda k: -len(groups[k])) for line in groups[kind]]


def unjudged(results: Iterable[Result]) -> list[str]:
    """Mutants that neither lowering nor a run decides."""
    return [_told(r, r.why) for r in results if r.verdict == "unjudged"]


def _told(result: Result, words: str) -> str:
    m = result.mutant
    return f"{m.name}\n    - {m.before}\n    + {m.after}\n    {words}"
