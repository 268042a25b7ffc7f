"""parallel-write-race, in thread code: threads of one block that write different values to one element.

Outside of T.Parallel every thread runs every statement. A store to shared or global memory at a place that
no thread number moves, of a value that differs by thread, leaves the value of whoever came last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilelang.analysis.arbitrary_data import arbitrary_data
from tilelang.analysis.collisions import Touching, cell_text, differs, met_beside
from tilelang.analysis.data_conditions import data_conditions, reading_names
from tilelang.analysis.parallel_reduction_race import updates_itself
from tilelang.analysis.subject import Subject, soften
from tilelang.analysis.thread_names import names_threads
from tilelang.arch.tables import features
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.order import THREAD_UPDATE_RACE, THREAD_WRITE_RACE
from tilelang.ir.expressions import spelled_out
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Launch, Store, walk
from tilelang.ir.values import Unknown, as_int
from tilelang.ops.operands import declared

from tvm import ir  # isort: skip


def check(subject: Subject) -> Iterator[Problem]:
    """Only where the kernel names its threads: elsewhere the compiler chooses who stores a single element."""
    launch = subject.launch
    if launch is None or not features(subject.target).spreads_blocks or not names_threads(launch):
        return
    names = subject.shared(reading_names)
    threads = _threads(launch)
    for node in _stores(launch):
        own = {v for i in node.indices for v in free_vars(spelled_out(i, names))}
        value = spelled_out(node.value, names)  # type: ignore[arg-type]
        if own & set(threads) or not set(threads) & free_vars(value):
            continue
        if data_conditions(subject, node.context) is None:
            yield from _problem(subject, replace(node, value=value), threads)


def _threads(launch: Launch) -> tuple[ir.Var, ...]:
    pairs = zip(launch.thread_vars, launch.threads or (), strict=False)
    return tuple(v for v, extent in pairs if as_int(extent) != 1)


def _stores(launch: Launch) -> Iterator[Store]:
    for node in walk(launch.body):
        if (
            isinstance(node, Store)
            and node.buffer.known
            and node.buffer.scope in ("shared", "global")
            and not node.context.parallel_vars()
            and not any(isinstance(v, Unknown) for v in (node.value, *node.indices))
        ):
            yield node


def _problem(subject: Subject, node: Store, threads: tuple[ir.Var, ...]) -> Iterator[Problem]:
    touching = Touching(node.context, node.indices, threads)
    data = subject.shared(arbitrary_data)
    for met in met_beside(subject, touching, node.value):
        if not differs(node.value, met.first, met.second, data):
            continue
        rule = THREAD_UPDATE_RACE if updates_itself(node, met) else THREAD_WRITE_RACE
        first, second = sorted((met.first, met.second), key=lambda p: [p[v] for v in threads])
        problem = rule.at(
            node.span,
            related=declared(node.buffer),
            first=met.name(first),
            second=met.name(second),
            access=cell_text(subject, node.buffer, node.indices, first),
        )
        yield soften(problem, node.context)
        return
