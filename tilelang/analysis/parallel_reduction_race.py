"""parallel-reduction-race: iterations of one T.Parallel that read, change and write back the same element."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilelang.analysis.collisions import (
    Collision,
    Touching,
    cell_text,
    collisions,
    number_at,
    same_value,
)
from tilelang.analysis.data_conditions import DataConditions, both_may_come, data_conditions
from tilelang.analysis.open_sizes import collisions_of_open_sizes, given_sizes
from tilelang.analysis.subject import Subject, soften
from tilelang.arch.atomics import atomic_dtypes
from tilelang.diagnostics.problem import Fix, Problem, Related, Severity
from tilelang.diagnostics.rules.order import PARALLEL_REDUCTION_RACE, PARALLEL_REDUCTION_WHERE
from tilelang.ir.expressions import loads_of
from tilelang.ir.folds import fold_into
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Store, walk
from tilelang.ir.values import Unknown
from tilelang.ops.atomic_edit import atomic_edit
from tilelang.ops.operands import declared
from tilelang.ops.source_edits import text_of

from tvm import tirx as X  # isort: skip


def check(subject: Subject) -> Iterator[Problem]:
    """Stores to shared and global memory; a fragment element has one owner, which iterates one by one."""
    for node in parallel_stores(subject):
        under = data_conditions(subject, node.context)
        if under is not None:
            yield from _under(subject, node, under)
            continue
        touching = Touching(node.context, node.indices, node.context.parallel_vars())
        for met in collisions(subject, touching, touching):
            if not updates_itself(node, met):
                break
            if _idempotent(node.value, met):
                continue
            yield soften(_problem(subject, node, met), node.context)
            break
        else:
            told = list(_over_a_size(subject, node))
            yield from told or _with_sizes(subject, node, touching)


def _problem(subject: Subject, node: Store, met: Collision) -> Problem:
    a, b = sorted((met.first, met.second), key=lambda p: [p[v] for v in met.together])
    return PARALLEL_REDUCTION_RACE.at(
        node.span,
        related=(*_loops(node), *declared(node.buffer)),
        first=met.name(a),
        second=met.name(b),
        access=cell_text(subject, node.buffer, node.indices, a),
        reduction=reduction_of(node, ", or "),
        vars=", ".join(v.name for v in met.together if a[v] != b[v]),
        fixes=_atomic(subject, node),
    )


def _with_sizes(subject: Subject, node: Store, touching: Touching) -> Iterator[Problem]:
    """An update that collides in every call but that of one element: a warning."""
    for met, sizes in collisions_of_open_sizes(subject, node, touching):
        if not updates_itself(node, met):
            return
        if not _idempotent(node.value, met):
            yield given_sizes(_problem(subject, node, met), sizes)
            return


def _under(subject: Subject, node: Store, under: DataConditions) -> Iterator[Problem]:
    """An update under a condition on data, as of a counter: `if A[i] > 0: n[0] += 1`."""
    read = tuple(i for c in under.conditions for load in loads_of(c) for i in load.indices)
    touching = Touching(under.context, node.indices, node.context.parallel_vars(), read)
    for met in collisions(subject, touching, touching):
        if not updates_itself(node, met):
            return
        points = (met.first, met.second)
        if _idempotent(node.value, met) or not both_may_come(subject, points, under.conditions):
            continue
        a, b = sorted(points, key=lambda p: [p[v] for v in met.together])
        fixes = _atomic(subject, node)
        variables = ", ".join(v.name for v in met.together if a[v] != b[v])
        problem = PARALLEL_REDUCTION_WHERE.at(
            node.span,
            related=(*_loops(node), *declared(node.buffer)),
            first=met.name(a),
            second=met.name(b),
            access=cell_text(subject, node.buffer, node.indices, a),
            where=under.text,
            instead=fixes[0].title.removeprefix("Use ") if fixes else f"a serial loop over {variables}",
            fixes=fixes,
        )
        yield soften(problem, node.context)
        return


def _over_a_size(subject: Subject, node: Store) -> Iterator[Problem]:
    """An update `s[i] += ...` that the iterations over a size repeat: a race for every size but 1."""
    variables = node.context.parallel_vars()
    sizes = {s.var for s in subject.program.symbols}
    used = {v for index in node.indices for v in free_vars(index)}
    open_ones = [v for v in variables if subject.ranges.get(v, (0, 0))[1] in sizes and v not in used]
    fixed = isinstance(node.value, X.Max | X.Min | X.Or | X.And | X.BitwiseOr | X.BitwiseAnd)
    if not open_ones or fixed or node.context.guards:
        return
    cell = [str(i) for i in node.indices]
    own = [load for load in loads_of(node.value) if load.source.same_as(node.buffer.var)]
    if not any([str(i) for i in load.indices] == cell for load in own):
        return
    first = dict.fromkeys(variables, 0)
    second = {**first, open_ones[-1]: 1}
    names = [Collision(variables, first, second).name(point) for point in (first, second)]
    problem = PARALLEL_REDUCTION_RACE.at(
        node.span,
        related=(*_loops(node), *declared(node.buffer)),
        first=names[0],
        second=names[1],
        access=cell_text(subject, node.buffer, node.indices, first),
        reduction=reduction_of(node, ", or "),
        vars=", ".join(v.name for v in open_ones),
        fixes=_atomic(subject, node),
    )
    yield soften(problem.with_severity(Severity.WARNING), node.context)


def parallel_stores(subject: Subject, scopes: tuple[str, ...] = ("shared", "global")) -> Iterator[Store]:
    """Stores inside T.Parallel to memory of these scopes, all of them known."""
    for node in walk(subject.program.body):
        if (
            isinstance(node, Store)
            and node.buffer.scope in scopes
            and node.buffer.known
            and node.context.parallel_vars()
            and not any(isinstance(v, Unknown) for v in (node.value, *node.indices))
        ):
            yield node


def updates_itself(node: Store, met: Collision) -> bool:
    """Whether the new value is made from the old one."""
    cell = [number_at(i, met.first) for i in node.indices]
    if None in cell:
        return False
    return any(
        load.source.same_as(node.buffer.var) and [number_at(i, met.first) for i in load.indices] == cell
        for load in loads_of(node.value)
    )


def reduction_of(node: Store, behind: str) -> str:
    """The tile operation that folds as `old + x` or `T.max(old, x)` does, and the text behind it; nothing
    where there is none.
    """
    fold = fold_into(node.buffer.var, node.indices, str(node.buffer.dtype), node.value)
    return "" if fold is None else f"T.reduce_{fold[0]}{behind}"


def _idempotent(value: Any, met: Collision) -> bool:
    """Whether doing it twice is the same as doing it once: `T.max(s[0], 1)`, the flag that all may set."""
    return isinstance(value, X.Max | X.Min | X.Or | X.And | X.BitwiseOr | X.BitwiseAnd) and same_value(
        value, met.first, met.second
    )


def _atomic(subject: Subject, node: Store) -> tuple[Fix, ...]:
    """The same update as an atomic one, if the target has it for that dtype."""
    loop = next(x for x in node.context.loops if x.kind == "Parallel")
    language, dot, _ = text_of(loop.span, subject.text).partition(".")
    found = atomic_edit(node.span, subject.text, language) if dot and language.isidentifier() else None
    if found is None:
        return ()
    kind, edit = found
    legal = atomic_dtypes(subject.target, kind)
    if legal is not None and str(node.buffer.dtype) not in legal:
        return ()
    return (Fix(f"Use {language}.atomic_{kind}", (edit,)),)


def _loops(node: Store) -> tuple[Related, ...]:
    loop = next(x for x in node.context.loops if x.kind == "Parallel")
    return (Related(loop.span, "the parallel loop"),)
