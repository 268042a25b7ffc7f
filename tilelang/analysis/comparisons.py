"""What conditions say about an index: the comparisons that surely hold, and whether there is more to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilelang.analysis.subject import Subject
from tilelang.diagnostics.span import Span
from tilelang.ir.expressions import conjuncts
from tilelang.ir.tile_program import Access, Guard
from tilelang.ir.values import Unknown, Value, as_int

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip

_BINARY = (X.And, X.Or, X.EQ, X.NE, X.LT, X.LE, X.GT, X.GE)


@dataclass(frozen=True, eq=False)
class Comparison:
    """`small < large`, or `small <= large`."""

    small: Value
    large: Value
    or_equal: bool


def comparisons(condition: Value, negated: bool) -> Iterator[Comparison]:
    """Each comparison that surely holds where a condition does, or where it does not with `negated`."""
    for part, contrary in conjuncts(condition, negated):
        if isinstance(part, X.LE | X.LT | X.GE | X.GT):
            upward = isinstance(part, X.LE | X.LT) != contrary
            small, large = (part.a, part.b) if upward else (part.b, part.a)
            yield Comparison(small, large, isinstance(part, X.LE | X.GE) != contrary)


def asks_more(subject: Subject, condition: Value, start: Value, negated: bool = False) -> bool:
    """Whether a condition has another say about the index: `i != N`, or one of several that may hold."""
    condition = subject.meaning(condition)
    if isinstance(condition, X.Not):
        return asks_more(subject, condition.a, start, not negated)
    if isinstance(condition, X.And if negated else X.Or):
        return _about(subject, condition, start)
    if isinstance(condition, X.And | X.Or):
        return any(asks_more(subject, part, start, negated) for part in (condition.a, condition.b))
    return isinstance(condition, X.EQ | X.NE) and _about(subject, condition, start)


def _about(subject: Subject, condition: Value, start: Value) -> bool:
    """Whether any comparison in a condition is about the index."""
    condition = subject.meaning(condition)
    if isinstance(condition, X.Not):
        return _about(subject, condition.a, start)
    sides = (condition.a, condition.b) if isinstance(condition, _BINARY) else ()
    if isinstance(condition, X.And | X.Or):
        return any(_about(subject, side, start) for side in sides)
    return any(proven_equal(subject, side, start) for side in sides)


def proven_equal(subject: Subject, a: Value, b: Value) -> bool:
    """Whether two values surely are one; a number and what is no number count as different."""
    one, other = as_int(a), as_int(b)
    if one is not None or other is not None:
        return one == other
    return isinstance(a, ir.Expr) and isinstance(b, ir.Expr) and subject.prover.equal(a, b) is True


def walks(subject: Subject, guard: Guard, start: Value, size: Value) -> bool:
    """Whether under the condition something indexed so goes along a dimension of this size."""
    for access in subject.shared(_by_guard)[guard.span]:
        for index, extent in zip(access.indices, access.buffer.shape, strict=False):
            if isinstance(extent, Unknown) or isinstance(index.start, Unknown):
                return True
            if proven_equal(subject, extent, size) and proven_equal(subject, index.start, start):
                return True
    return False


def _by_guard(subject: Subject) -> Mapping[Span, list[Access]]:
    """The accesses under each condition, by its place."""
    found: dict[Span, list[Access]] = {}
    for access in subject.program.accesses:
        for span in {g.span for g in access.context.guards}:
            found.setdefault(span, []).append(access)
    return found
