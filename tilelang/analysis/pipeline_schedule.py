"""pipeline-schedule: `order` and `stage` of a T.Pipelined loop that do not fit its statements.

A schedule by hand has one entry per statement. A scalar that is bound in the loop may have one or not, so a
list is called wrong only where neither count is its length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.order import (
    PIPELINE_SCHEDULE_DEPENDENCE,
    PIPELINE_SCHEDULE_LENGTH,
    PIPELINE_SCHEDULE_TWICE,
)
from tilelang.ir.expressions import loads_of
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Alloc, Bind, Do, For, Loop, Node, Store, walk
from tilelang.ir.values import Buffer, as_int
from tilelang.ops.registry import TILE_OPS
from tilelang.ops.source_edits import keyword_span


def check(subject: Subject) -> Iterator[Problem]:
    """The first thing that is wrong with each schedule."""
    for node in walk(subject.program.body):
        if not isinstance(node, For) or node.loop.kind != "Pipelined" or not subject.program.complete:
            continue
        order, stage = (_numbers(node.loop, name) for name in ("order", "stage"))
        if order is None or stage is None:  # one alone is no schedule
            continue
        problem = next(_wrong(subject, node, order, stage), None)
        if problem is not None:
            yield problem


def _numbers(loop: Loop, name: str) -> list[int] | None:
    given = loop.annotations.get(name)
    if not isinstance(given, list | tuple):
        return None
    numbers = [as_int(n) for n in given]
    return None if None in numbers else [n for n in numbers if n is not None]


def _wrong(subject: Subject, node: For, order: list[int], stage: list[int]) -> Iterator[Problem]:
    statements = [n for n in node.body if not isinstance(n, Alloc)]
    scheduled = [n for n in statements if not isinstance(n, Bind)]
    for name, given in (("order", order), ("stage", stage)):
        if not len(scheduled) <= len(given) <= len(statements):
            yield PIPELINE_SCHEDULE_LENGTH.at(
                keyword_span(node.loop.span, subject.text, name),
                related=tuple(Related(n.span, f"statement {k}") for k, n in enumerate(scheduled)),
                name=name,
                given=len(given),
                count=len(scheduled),
                loop=node.loop.vars[0].name,
            )
    for k, place in enumerate(order):
        if place in order[:k]:
            yield PIPELINE_SCHEDULE_TWICE.at(
                keyword_span(node.loop.span, subject.text, "order"),
                first=order.index(place),
                second=k,
                place=place,
            )
    if len(order) == len(stage) == len(scheduled):
        yield from _against_dependences(subject, node, scheduled, order, stage)


def _against_dependences(
    subject: Subject, node: For, scheduled: Sequence[Node], order: Sequence[int], stage: Sequence[int]
) -> Iterator[Problem]:
    """What is written is read in the same stage or a later one, and in one stage behind it."""
    touched = [_touched(subject, n) for n in scheduled]
    for reader in range(len(scheduled)):
        for writer in range(reader):
            both = [b for b in touched[writer].written if b in touched[reader].read]
            early = (stage[writer], order[writer]) > (stage[reader], order[reader])
            if not both or not early:
                continue
            name = "stage" if stage[writer] > stage[reader] else "order"
            numbers = stage if name == "stage" else order
            yield PIPELINE_SCHEDULE_DEPENDENCE.at(
                keyword_span(node.loop.span, subject.text, name),
                related=(
                    Related(scheduled[writer].span, f"{both[0].name} is written here"),
                    Related(scheduled[reader].span, f"{both[0].name} is read here"),
                ),
                name=name,
                buffer=both[0].name,
                writer=writer,
                reader=reader,
                first=numbers[writer],
                second=numbers[reader],
            )


@dataclass(frozen=True)
class _Touched:
    read: list[Buffer]
    written: list[Buffer]


def _touched(subject: Subject, node: Node) -> _Touched:
    """The storage that a statement, with all inside it, surely reads and writes."""
    by_var = {b.var: b.storage for b in subject.program.buffers if b.known}
    found = _Touched([], [])
    for part in walk([node]):
        if isinstance(part, Do) and part.record.op in TILE_OPS:
            for access in subject.accesses(part.record):
                (found.written if access.mode == "write" else found.read).append(access.region.buffer.storage)
        elif isinstance(part, Store):
            found.written.append(part.buffer.storage)
            loads = [load for value in (part.value, *part.indices) for load in loads_of(value)]
            found.read.extend(by_var[v] for load in loads for v in free_vars(load) if v in by_var)
    return found
