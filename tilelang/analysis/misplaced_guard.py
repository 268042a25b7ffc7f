"""misplaced-guard: a condition keeps an index below the size of another dimension than the one it walks.

`if i < N and j < M: A[i, j]` where A is (M, N): with M < N rows beyond the end are let through, with M > N
rows are left out. That an index is kept below some other number may be meant; that the number is the size of
another dimension of the very tensor, by the author's own names, and of no dimension that this index walks
under the condition, is the evidence. Silent about a diagonal, and where another condition bounds the index.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tilelang.analysis.affine import always_inside
from tilelang.analysis.comparisons import asks_more, comparisons, proven_equal, walks
from tilelang.analysis.dimension_names import DimensionNames
from tilelang.analysis.subject import Subject, soften
from tilelang.diagnostics.problem import Edit, Fix, Problem, Related
from tilelang.diagnostics.rules.bounds import MISPLACED_GUARD
from tilelang.diagnostics.span import Span
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Access, Guard
from tilelang.ir.values import Index, Unknown, show
from tilelang.ops.operands import declared
from tilelang.ops.source_edits import span_text

from tvm import ir  # isort: skip
from tilelang.parsing import parse


def check(subject: Subject) -> Iterator[Problem]:
    """Once for each index under a condition."""
    told: set[tuple[Span, str]] = set()
    for access in subject.program.accesses:
        guarded = access.context.guards and access.buffer.scope == "global"
        if not guarded or len(access.indices) != len(access.buffer.shape):
            continue
        for dim, index in enumerate(access.indices):
            found = _other_dimension(subject, access, dim, index)
            if found is None:
                continue
            guard, other = found
            key = guard.span, show(index.start)
            if key not in told:
                told.add(key)
                yield soften(_problem(subject, access, dim, index, guard, other), access.context)


def _other_dimension(subject: Subject, access: Access, dim: int, index: Index) -> tuple[Guard, int] | None:
    """The condition that bounds an index by the size of another dimension of the tensor, and which."""
    start, size = index.start, access.buffer.shape[dim]
    if isinstance(start, Unknown) or isinstance(size, Unknown) or not free_vars(start):
        return None
    bounds = [
        (guard, c)
        for guard in access.context.guards
        if not isinstance(guard.condition, Unknown)
        for c in comparisons(subject.meaning(guard.condition), guard.negated)
        if proven_equal(subject, c.small, start)
    ]
    if len(bounds) != 1 or bounds[0][1].or_equal or always_inside(subject.ranges, start, 1, size):
        return None
    guard, bound = bounds[0]
    if any(asks_more(subject, g.condition, start) for g in access.context.guards):
        return None
    if walks(subject, guard, start, bound.large):
        return None
    written = _names_in(span_text(guard.span, subject.text)) if _here(subject, guard) else set()
    names = subject.shared(DimensionNames)
    mine = names.words(access.buffer, dim)
    for other in range(len(access.buffer.shape)):
        word = names.words(access.buffer, other)
        if (
            other != dim
            and mine is not None
            and mine != word
            and (word in written or isinstance(bound.large, ir.Var))
            and names.same(access.buffer, dim, access.buffer, other) is False
            and proven_equal(subject, bound.large, access.buffer.shape[other])
            and not proven_equal(subject, access.indices[other].start, start)
        ):
            return guard, other
    return None


def _here(subject: Subject, guard: Guard) -> bool:
    return guard.span.path == subject.program.span.path and bool(subject.text)


def _names_in(text: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())


def _problem(subject: Subject, access: Access, dim: int, index: Index, guard: Guard, other: int) -> Problem:
    """At the size that is compared with, where that is found in the text."""
    names = subject.shared(DimensionNames)
    wrong, right = names.text(access.buffer, other), names.text(access.buffer, dim)
    place = _place(subject, guard, index, wrong)
    return MISPLACED_GUARD.at(
        place or guard.span,
        related=(Related(index.span, "the index"), *declared(access.buffer)),
        index=span_text(index.span, subject.text),
        bound=wrong,
        other=other,
        buffer=access.buffer.name,
        dim=dim,
        right=right,
        fixes=() if place is None else (Fix(f"Compare with `{right}`", (Edit(place, right),)),),
    )


def _place(subject: Subject, guard: Guard, index: Index, wrong: str) -> Span | None:
    """Of the size behind `<` in the only comparison of this index."""
    text = span_text(guard.span, subject.text)
    try:
        condition = parse(f"({text})", mode="eval")
        wanted = ast.unparse(parse(span_text(index.span, subject.text), mode="eval"))
    except SyntaxError:
        return None
    found = [
        node.comparators[0]
        for node in ast.walk(condition)
        if isinstance(node, ast.Compare)
        and len(node.ops) == 1
        and isinstance(node.ops[0], ast.Lt)
        and ast.unparse(node.left) == wanted
        and ast.unparse(node.comparators[0]) == wrong
    ]
    if len(found) != 1 or guard.span.line != guard.span.end_line or not text.isascii():
        return None
    column = guard.span.column + found[0].col_offset - 1  # behind the bracket that was put in front
    return Span(guard.span.path, guard.span.line, column, guard.span.line, column + len(wrong))
