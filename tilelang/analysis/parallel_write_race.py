"""parallel-write-race: iterations of one T.Parallel that write different values to the same element."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.arbitrary_data import arbitrary_data
from tilelang.analysis.collisions import (
    Collision,
    Touching,
    cell_text,
    collisions,
    differs,
    met_beside,
    same_value,
)
from tilelang.analysis.data_conditions import DataConditions, both_may_come, data_conditions
from tilelang.analysis.open_sizes import collisions_of_open_sizes, given_sizes
from tilelang.analysis.parallel_reduction_race import parallel_stores, updates_itself
from tilelang.analysis.subject import Subject, soften
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rule import Rule
from tilelang.diagnostics.rules.order import PARALLEL_WRITE_HINT, PARALLEL_WRITE_RACE
from tilelang.ir.expressions import loads_of
from tilelang.ir.tile_program import Store
from tilelang.ops.operands import declared


def check(subject: Subject) -> Iterator[Problem]:
    """That all write one value is permitted. Values that are read from different elements of the kernel's
    data differ; others only may. Of a fragment, where one thread writes in turn, only what differs counts.
    """
    for node in parallel_stores(subject, ("shared", "global", "local.fragment")):
        under = data_conditions(subject, node.context)
        if under is not None:
            yield from _under(subject, node, under)
            continue
        touching = Touching(node.context, node.indices, node.context.parallel_vars())
        pairs = met_beside(subject, touching, node.value)
        if any(updates_itself(node, met) for met in pairs):
            continue  # the affair of parallel-reduction-race
        data = subject.shared(arbitrary_data) if pairs else frozenset()
        proven = next((m for m in pairs if differs(node.value, m.first, m.second, data)), None)
        doubtful = next((m for m in pairs if not same_value(node.value, m.first, m.second)), None)
        if not pairs:
            yield from _with_sizes(subject, node, touching)
        elif proven is not None:
            yield soften(_problem(subject, node, proven, PARALLEL_WRITE_RACE), node.context)
        elif doubtful is not None and node.buffer.scope != "local.fragment":
            yield soften(_problem(subject, node, doubtful, PARALLEL_WRITE_HINT), node.context)


def _under(subject: Subject, node: Store, under: DataConditions) -> Iterator[Problem]:
    """Stores under a condition on data that two iterations share, so that both of them write. One that
    differs by iteration may hold for one of them only, as the mask of a choice.
    """
    read = tuple(i for c in under.conditions for load in loads_of(c) for i in load.indices)
    touching = Touching(under.context, node.indices, node.context.parallel_vars(), read)
    data = subject.shared(arbitrary_data)
    for met in collisions(subject, touching, touching):
        points = (met.first, met.second)
        if updates_itself(node, met):
            return
        shared = all(same_value(c, *points) for c in under.conditions)
        if shared and differs(node.value, *points, data) and both_may_come(subject, points, under.conditions):
            yield soften(_problem(subject, node, met, PARALLEL_WRITE_RACE), node.context)
            return


def _with_sizes(subject: Subject, node: Store, touching: Touching) -> Iterator[Problem]:
    """What is a race for usual sizes of the tensors, where these are open: a warning."""
    data = subject.shared(arbitrary_data)
    for met, sizes in collisions_of_open_sizes(subject, node, touching):
        if updates_itself(node, met):
            return
        if differs(node.value, met.first, met.second, data):
            yield given_sizes(_problem(subject, node, met, PARALLEL_WRITE_RACE), sizes)
            return


def _problem(subject: Subject, node: Store, met: Collision, rule: Rule) -> Problem:
    a, b = sorted((met.first, met.second), key=lambda p: [p[v] for v in met.together])
    loop = next(x for x in node.context.loops if x.kind == "Parallel")
    return rule.at(
        node.span,
        related=(Related(loop.span, "the parallel loop"), *declared(node.buffer)),
        first=met.name(a),
        second=met.name(b),
        access=cell_text(subject, node.buffer, node.indices, a),
    )
