"""misplaced-guard, where the size is right and the position is not: `if i < N: A[bx * 128 + i]`.

The condition compares the size of the dimension that an index walks with something close to the index:
without the block's part of it, or with the other variable of the loop. That nothing under the condition is
indexed with what is compared, along a dimension of this size, is the evidence.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.affine import affine, always_inside
from tilelang.analysis.comparisons import Comparison, asks_more, comparisons, proven_equal, walks
from tilelang.analysis.subject import Subject, soften
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.bounds import GUARD_ELSEWHERE
from tilelang.diagnostics.span import Span
from tilelang.ir.prove import free_vars, substitute
from tilelang.ir.tile_program import Access, Guard
from tilelang.ir.values import Index, Unknown, Value, as_int, show
from tilelang.ops.operands import declared
from tilelang.ops.source_edits import span_text

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip

_ZERO = X.const(0, "int32")


def check(subject: Subject) -> Iterator[Problem]:
    """Once for each condition and index."""
    told: set[tuple[Span, str]] = set()
    for access in subject.program.accesses:
        guarded = access.context.guards and access.buffer.scope == "global" and not access.context.maybe
        if not guarded or len(access.indices) != len(access.buffer.shape):
            continue
        for dim, index in enumerate(access.indices):
            found = _elsewhere(subject, access, index.start, access.buffer.shape[dim])
            if found is not None and (found[0].span, show(index.start)) not in told:
                told.add((found[0].span, show(index.start)))
                yield soften(_problem(subject, access, dim, index, *found), access.context)


def _elsewhere(
    subject: Subject, access: Access, start: Value, size: Value
) -> tuple[Guard, Comparison] | None:
    """The condition that compares something else than the index with the size of its dimension."""
    guards = access.context.guards
    if isinstance(start, Unknown) or isinstance(size, Unknown) or as_int(size) is not None:
        return None
    if any(isinstance(g.condition, Unknown) for g in guards):
        return None
    found = [(g, c) for g in guards for c in comparisons(subject.meaning(g.condition), g.negated)]
    if not found or any(proven_equal(subject, c.small, start) for _, c in found):
        return None
    close = [(g, c) for g, c in found if not c.or_equal and proven_equal(subject, c.large, size)]
    if len(close) != 1 or not _is_close(subject, access, close[0][1].small, start):
        return None
    guard, comparison = close[0]
    if any(asks_more(subject, g.condition, v) for g in guards for v in (start, comparison.small)):
        return None
    if always_inside(subject.ranges, start, 1, size) or subject.prover.surely_at_most(
        start, comparison.small
    ):
        return None
    return None if walks(subject, guard, comparison.small, comparison.large) else close[0]


def _is_close(subject: Subject, access: Access, compared: Value, start: Value) -> bool:
    """Whether what is compared is the index without the blocks, or with another variable of the loop."""
    used, together = free_vars(start), access.context.parallel_vars()
    if isinstance(compared, Unknown) or not free_vars(compared):
        return False
    blocks = used & set(subject.launch.block_vars if subject.launch is not None else ())
    if blocks and proven_equal(subject, compared, substitute(start, dict.fromkeys(blocks, _ZERO))):
        return True
    pairs = [(v, w) for v in together for w in together if v in used and w not in used]
    return any(
        proven_equal(subject, compared, substitute(start, {v: w})) and _in_place(subject, start, v, w)
        for v, w in pairs
    )


def _in_place(subject: Subject, start: Value, own: ir.Var, other: ir.Var) -> bool:
    """Whether a variable of the loop goes through what the rest of the index steps over. The index of which
    it does not is the affair of wrong-variable.
    """
    extents = [as_int(subject.ranges[v][1]) if v in subject.ranges else None for v in (own, other)]
    form = affine(start)
    steps = () if form is None else [c for v, c in form.terms.items() if v is not own]
    return extents[0] == extents[1] or extents[0] in steps


def _problem(
    subject: Subject, access: Access, dim: int, index: Index, guard: Guard, comparison: Comparison
) -> Problem:
    written = span_text(index.span, subject.text)
    return GUARD_ELSEWHERE.at(
        guard.span,
        related=(Related(index.span, "the index"), *declared(access.buffer)),
        compared=show(comparison.small),
        size=show(comparison.large),
        buffer=access.buffer.name,
        dim=dim,
        index=written or show(index.start),
    )
