"""index-out-of-bounds where a table of integers is read past its end by the last block or step.

`cu_seqlens[b + 2]` of B + 1 entries: the read is guarded and gives 0, which no end of a loop and no index is.
Only shifts of one variable that stays inside by itself: a grid larger than the table is a guarded tail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tilelang.analysis.affine import affine
from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.bounds import INDEX_PAST_TABLE
from tilelang.ir.prove import operands_of
from tilelang.ir.tile_program import Access, Bind, For, walk
from tilelang.ir.values import Unknown, Value, add, show
from tilelang.ops.operands import declared

from tvm import ir  # isort: skip

_LOOP, _PLACE = "how far a loop goes", "which element is touched"


def check(subject: Subject) -> Iterator[Problem]:
    """Once for each place. Silent under conditions, and where nothing but data comes of the value."""
    uses: Mapping[int, str] | None = None
    for access in subject.program.accesses:
        if access.load is None or access.context.guards or access.context.maybe:
            continue
        if access.buffer.scope != "global" or "int" not in str(access.buffer.dtype):
            continue
        for dim, index in enumerate(access.indices):
            found = _past(subject, access, dim, index.start)
            if found is None:
                continue
            uses = _deciding(subject) if uses is None else uses
            use = uses.get(access.load.__chandle__())
            fetched_ahead = use == _PLACE and not _is_block(subject, found[0])  # of a step that never comes
            if use is not None and not fetched_ahead:
                yield INDEX_PAST_TABLE.at(
                    index.span,
                    related=declared(access.buffer),
                    var=found[0].name,
                    index=show(index.start),
                    reached=show(found[1]),
                    size=show(access.buffer.shape[dim]),
                    buffer=access.buffer.name,
                    use=use,
                )


def _past(subject: Subject, access: Access, dim: int, start: Value) -> tuple[ir.Var, Value] | None:
    """The variable whose last value leads past the end, and where to."""
    form, size = affine(start), access.buffer.shape[dim] if dim < len(access.buffer.shape) else Unknown("")
    if form is None or isinstance(size, Unknown) or form.constant < 1 or list(form.terms.values()) != [1]:
        return None
    (var,) = form.terms
    varying = subject.surely_runs(access.context)
    if varying is None or var not in varying:
        return None
    low, extent = varying[var]
    end = add(low, extent)
    reached = subject.prover.simplify(add(end, form.constant - 1))
    inside = subject.prover.at_least(size, end) is True
    return (var, reached) if inside and subject.prover.at_least(reached, size) is True else None


def _is_block(subject: Subject, var: ir.Var) -> bool:
    return subject.launch is not None and any(v.same_as(var) for v in subject.launch.block_vars)


def _deciding(subject: Subject) -> dict[int, str]:
    """Handle of a load -> what its value decides: through names and sums."""
    found: dict[int, str] = {}
    named = {n.var: n.value for n in walk(subject.program.body) if isinstance(n, Bind)}

    def note(value: Any, use: str) -> None:
        if isinstance(value, ir.Var) and value in named:
            note(named.pop(value), use)
        elif type(value).__name__ == "TensorLoad":
            found.setdefault(value.__chandle__(), use)
            for index in value.indices:
                note(index, _PLACE)
        elif isinstance(value, ir.Expr):
            for operand in operands_of(value):
                note(operand, use)

    for node in walk(subject.program.body):
        if isinstance(node, For):
            for bound in (*node.loop.mins, *node.loop.extents):
                note(bound, _LOOP)
    for access in subject.program.accesses:
        for index in access.indices:
            note(index.start, _PLACE)
    for record in subject.records:
        for touched in subject.accesses(record):
            for start in touched.region.starts:
                note(start, _PLACE)
    return found
