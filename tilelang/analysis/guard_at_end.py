"""index-out-of-bounds, for conditions that were meant to keep an index inside and let the first one outside
through: `if i <= N: A[i]` where A has N elements, `i >= -1`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.affine import affine
from tilelang.analysis.comparisons import Comparison, asks_more, comparisons, proven_equal
from tilelang.analysis.iterations import iterations, ranges_around
from tilelang.analysis.subject import Subject, soften
from tilelang.diagnostics.problem import Edit, Fix, Problem, Related
from tilelang.diagnostics.rules.bounds import INDEX_LET_THROUGH
from tilelang.diagnostics.span import Span
from tilelang.ir.evaluate import NotEvaluable
from tilelang.ir.prove import free_vars, substitute
from tilelang.ir.tile_program import Access, Guard
from tilelang.ir.values import Index, Unknown, Value, as_int, show
from tilelang.ops.operands import declared
from tilelang.ops.source_edits import span_text

from tvm import tirx as X  # isort: skip


def check(subject: Subject) -> Iterator[Problem]:
    """Once for each condition. Silent where no iteration comes that far, or another condition stops it."""
    told: set[Span] = set()
    for access in subject.program.accesses:
        if not access.context.guards or len(access.indices) != len(access.buffer.shape):
            continue
        for dim, index in enumerate(access.indices):
            guard = _lets_through(subject, access, dim, index)
            if guard is not None and guard.span not in told:
                told.add(guard.span)
                yield _problem(subject, access, dim, index, guard)


def _lets_through(subject: Subject, access: Access, dim: int, index: Index) -> Guard | None:
    start, size = index.start, access.buffer.shape[dim]
    if isinstance(start, Unknown) or isinstance(size, Unknown) or not free_vars(start):
        return None
    if any(isinstance(g.condition, Unknown) for g in access.context.guards):
        return None
    conditions = [
        (part, g)
        for g in access.context.guards
        for part in comparisons(subject.meaning(g.condition), g.negated)
    ]
    at_end = [g for c, g in conditions if _at_most(subject, c, start, size)]
    if not at_end or any(_bounds_closer(subject, c, start, size) for c, _ in conditions):
        return None
    if any(loop in subject.loops_with_jumps for loop in access.context.loops):
        return None  # which may leave at the end
    if any(asks_more(subject, g.condition, start) for g in access.context.guards):
        return None
    return at_end[0] if _may_reach(subject, access, start, size) else None


def _at_most(subject: Subject, comparison: Comparison, start: Value, size: Value) -> bool:
    """Whether a comparison says `start <= size`."""
    return (
        comparison.or_equal
        and proven_equal(subject, comparison.small, start)
        and proven_equal(subject, comparison.large, size)
    )


def _bounds_closer(subject: Subject, comparison: Comparison, start: Value, size: Value) -> bool:
    """Whether a comparison keeps the index below something else, which may be less."""
    return proven_equal(subject, comparison.small, start) and not _at_most(subject, comparison, start, size)


def _may_reach(subject: Subject, access: Access, start: Value, size: Value) -> bool:
    """Whether some iteration comes to the end; also for some sizes, where they are open."""
    points = iterations(subject, access.context, (start, size))
    if points is not None:
        try:
            at, limit = points.values(start), points.values(size)
        except NotEvaluable:
            return False
        return bool((points.active & (at == limit)).any())
    if as_int(size) is not None and any(X.is_buffer_var(v) for v in free_vars(start)):
        return False  # an index from memory: what it can be is not known
    last = _last(subject, access, start)
    return last is not None and not any(subject.prover.less(v, size) for v in (start, last))


def _last(subject: Subject, access: Access, start: Value) -> Value | None:
    """The index in the last iteration of what is around it; None for what is no sum."""
    form = affine(start)
    if form is None:
        return None
    ends = {
        v: low + extent - 1
        for v, (low, extent) in ranges_around(subject, access.context).items()
        if form.terms.get(v, 0) > 0 and not isinstance(low, Unknown) and not isinstance(extent, Unknown)
    }
    return substitute(start, ends)


def _problem(subject: Subject, access: Access, dim: int, index: Index, guard: Guard) -> Problem:
    size = access.buffer.shape[dim]
    problem = INDEX_LET_THROUGH.at(
        guard.span,
        related=(Related(index.span, "the index"), *declared(access.buffer)),
        index=show(index.start),
        buffer=access.buffer.name,
        dim=dim,
        size=show(size),
        fixes=_fixes(subject, guard),
    )
    return soften(problem, access.context)


def _fixes(subject: Subject, guard: Guard) -> tuple[Fix, ...]:
    """`<` for `<=` where that is the only comparison of the condition."""
    if not subject.text or guard.span.line != guard.span.end_line:
        return ()
    text = span_text(guard.span, subject.text)
    if "<=" not in text or text.count("<") != 1 or ">" in text:  # another one may be the one that is meant
        return ()
    column = guard.span.column + text.index("<=")
    place = Span(guard.span.path, guard.span.line, column, guard.span.line, column + 2)
    return (Fix("Write `<`", (Edit(place, "<"),)),)
