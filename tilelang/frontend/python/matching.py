"""`match`: decided while tracing where the subject is a Python value, else both ways are kept."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from tilelang.diagnostics.rules.python import UNSUPPORTED_PYTHON
from tilelang.frontend.constants import any_not_given
from tilelang.frontend.model import ClassValue, Flow, Function, Instance
from tilelang.frontend.names import bind_name
from tilelang.frontend.operators import compare
from tilelang.frontend.python.branches import undecided
from tilelang.frontend.python.loops import truth
from tilelang.frontend.python.object_equality import compare_objects
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_traced, any_unknown
from tilelang.ir.values import Unknown

_LITERAL_TYPES = (bool, int, float, str, bytes, list, tuple, dict, set)
_INTERPRETED = (Instance, ClassValue, Function)
_UNSURE = Unknown("whether a pattern matches is not known")

Bindings = dict[str, tuple[Any, ast.pattern]]


def match_statement(run: Run, node: ast.Match) -> Flow | None:
    """`match subject: case ...`."""
    subject = run.eval(node.subject)
    lost = any_unknown(subject)
    lost = any_not_given(run, subject) if lost is None else lost
    if lost is None and any_traced(subject) and not all(_takes_all(c.pattern) for c in node.cases):
        shown = f"`{ast.unparse(node.subject)}`"
        what = (
            f"`match` compares in Python while the kernel is traced, but {shown} is known only when it runs; "
            "write `if` and `elif`"
        )
        run.report(UNSUPPORTED_PYTHON, run.span(node.subject), what=what)
        lost = Unknown(what)
    return _cases(run, node, subject, lost, node.cases)


def _takes_all(pattern: ast.pattern) -> bool:
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None


def _cases(
    run: Run, node: ast.Match, subject: Any, lost: Unknown | None, cases: Sequence[ast.match_case]
) -> Flow | None:
    for number, case in enumerate(cases):
        bound: Bindings = {}
        sure_or_not = _fits(run, case.pattern, subject, bound) if lost is None else _unknown_fit(case, bound)
        if sure_or_not is False:
            continue
        if sure_or_not is True and case.guard is not None:
            _bind(run, bound)
            guard = run.eval(case.guard)
            sure_or_not = guard if isinstance(guard, Unknown) else truth(guard)
            if any_traced(guard):
                sure_or_not = _UNSURE
        if sure_or_not is False:
            continue
        if sure_or_not is True:
            _bind(run, bound)
            return run.exec(case.body)
        rest = cases[number + 1 :]

        def taken(case: ast.match_case = case, bound: Bindings = bound) -> Flow | None:
            _bind(run, bound)
            return run.exec(case.body)

        def not_taken(rest: Sequence[ast.match_case] = rest) -> Flow | None:
            return _cases(run, node, subject, lost, rest)

        if _takes_all(case.pattern) and case.guard is None:
            return taken()
        return undecided(run, run.span(node.subject), _UNSURE, taken, not_taken)
    return None


def _bind(run: Run, bound: Bindings) -> None:
    for name, (value, pattern) in bound.items():
        bind_name(run, name, value, run.span(pattern))


def _unknown_fit(case: ast.match_case, bound: Bindings) -> Any:
    for inner in ast.walk(case.pattern):
        name = getattr(inner, "name", None) or getattr(inner, "rest", None)
        if name and isinstance(inner, ast.pattern):
            bound[name] = (_UNSURE, inner)
    return _UNSURE


def _fits(run: Run, pattern: ast.pattern, subject: Any, bound: Bindings) -> bool | Unknown:
    """Whether a known subject matches; names that the pattern binds go to `bound`."""
    match pattern:
        case ast.MatchValue():
            return _equal(run.eval(pattern.value), subject)
        case ast.MatchSingleton():
            return subject is pattern.value
        case ast.MatchAs():
            fits = True if pattern.pattern is None else _fits(run, pattern.pattern, subject, bound)
            if pattern.name:
                bound[pattern.name] = (subject, pattern)
            return fits
        case ast.MatchOr():
            return _any_fits(run, pattern.patterns, subject, bound)
        case ast.MatchSequence():
            return _sequence_fits(run, pattern, subject, bound)
        case ast.MatchMapping():
            return _mapping_fits(run, pattern, subject, bound)
        case ast.MatchClass():
            return _class_fits(run, pattern, subject, bound)
    return _UNSURE


def _equal(a: Any, b: Any) -> bool | Unknown:
    if a is b:
        return True
    if isinstance(a, _INTERPRETED) or isinstance(b, _INTERPRETED):
        answer = compare_objects(ast.Eq, a, b)
    else:
        try:
            answer = compare(ast.Eq, a, b)
        except RecursionError:
            raise
        except Exception:  # noqa: BLE001 (untraced operands are the user's objects)
            return _UNSURE
    return answer if isinstance(answer, bool) else _UNSURE


def _any_fits(run: Run, patterns: Sequence[ast.pattern], subject: Any, bound: Bindings) -> bool | Unknown:
    answers = []
    for pattern in patterns:
        answer = _fits(run, pattern, subject, bound)
        if answer is True:
            return True
        answers.append(answer)
    return False if all(a is False for a in answers) else _UNSURE


def _all_fit(
    run: Run, pairs: Sequence[tuple[ast.pattern, Any]], bound: Bindings, answer: bool | Unknown = True
) -> bool | Unknown:
    for pattern, value in pairs:
        one = any_unknown(value)
        fits = _fits(run, pattern, value, bound) if one is None else _UNSURE
        if fits is False:
            return False
        if fits is not True:
            answer = fits
    return answer


def _sequence_fits(run: Run, pattern: ast.MatchSequence, subject: Any, bound: Bindings) -> bool | Unknown:
    if not isinstance(subject, list | tuple | range):
        return False if isinstance(subject, bool | int | float | str | bytes | dict) else _UNSURE
    items, parts = list(subject), pattern.patterns
    star = next((k for k, p in enumerate(parts) if isinstance(p, ast.MatchStar)), None)
    if star is None:
        if len(items) != len(parts):
            return False
        return _all_fit(run, list(zip(parts, items, strict=True)), bound)
    after = len(parts) - star - 1
    if len(items) < len(parts) - 1:
        return False
    starred = parts[star]
    if isinstance(starred, ast.MatchStar) and starred.name:
        bound[starred.name] = (items[star : len(items) - after], starred)
    pairs = list(zip(parts[:star], items[:star], strict=True))
    pairs += list(zip(parts[star + 1 :], items[len(items) - after :], strict=True))
    return _all_fit(run, pairs, bound)


def _mapping_fits(run: Run, pattern: ast.MatchMapping, subject: Any, bound: Bindings) -> bool | Unknown:
    if not isinstance(subject, dict):
        return False if isinstance(subject, bool | int | float | str | bytes | list | tuple) else _UNSURE
    keys = [run.eval(k) for k in pattern.keys]
    if any_unknown(keys) is not None or any(isinstance(k, list | dict | set) for k in keys):
        return _UNSURE
    if any(k not in subject for k in keys):
        return False
    if pattern.rest:
        bound[pattern.rest] = ({k: v for k, v in subject.items() if k not in keys}, pattern)
    return _all_fit(run, list(zip(pattern.patterns, [subject[k] for k in keys], strict=True)), bound)


def _class_fits(run: Run, pattern: ast.MatchClass, subject: Any, bound: Bindings) -> bool | Unknown:
    cls = run.eval(pattern.cls)
    if isinstance(cls, type) and cls in _LITERAL_TYPES:
        if isinstance(subject, Instance | ClassValue):
            return _UNSURE
        if not isinstance(subject, cls):
            return False
        if pattern.kwd_patterns or len(pattern.patterns) > 1:
            return _UNSURE
        return _all_fit(run, [(p, subject) for p in pattern.patterns], bound)
    if isinstance(cls, type) and not isinstance(subject, _INTERPRETED):
        return _native_class_fits(run, pattern, cls, subject, bound)
    if not isinstance(cls, ClassValue) or not isinstance(subject, Instance):
        return False if isinstance(cls, ClassValue) and isinstance(subject, _LITERAL_TYPES) else _UNSURE
    if subject.cls is not cls:
        return _UNSURE
    names = [name for name, _ in cls.fields or ()]
    if len(pattern.patterns) > len(names):
        return _UNSURE
    wanted = [*zip(names, pattern.patterns, strict=False)]
    wanted += [*zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True)]
    if any(name not in subject.attributes for name, _ in wanted):
        return _UNSURE
    return _all_fit(run, [(p, subject.attributes[name]) for name, p in wanted], bound)


def _native_class_fits(
    run: Run, pattern: ast.MatchClass, cls: type, subject: Any, bound: Bindings
) -> bool | Unknown:
    """A class of running Python, such as a dataclass of options, and an object of it."""
    if not isinstance(subject, cls):
        return False
    names = getattr(cls, "__match_args__", ())
    if len(pattern.patterns) > len(names):
        return _UNSURE
    wanted = [*zip(names, pattern.patterns, strict=False)]
    wanted += [*zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True)]
    if any(not hasattr(subject, name) for name, _ in wanted):
        return False  # as Python has it
    return _all_fit(run, [(p, getattr(subject, name)) for name, p in wanted], bound)
