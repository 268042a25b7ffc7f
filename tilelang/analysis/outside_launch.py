"""outside-launch: what a function with several launches, or one under a condition, does outside of T.Kernel.

Nothing runs there on the host: what a launch is decided by, each of its threads computes for itself. That is
the same for all of them only where no launch changes what is read, and a store would belong to no launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tilelang.analysis.subject import Subject, is_assumption
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.order import CHANGED_BY_LAUNCH, DONE_OUTSIDE_LAUNCH
from tilelang.diagnostics.span import Span
from tilelang.ir.expressions import loads_of
from tilelang.ir.tile_ops import CHECK, is_call
from tilelang.ir.tile_program import Bind, Do, Evaluate, For, If, Launch, Node, Store, walk
from tilelang.ir.values import Buffer

from tvm import ir  # isort: skip


def check(subject: Subject) -> Iterator[Problem]:
    """A single launch that surely runs takes in what stands beside it."""
    body = subject.program.body
    launches = subject.program.launches()
    if not launches or (len(launches) == 1 and any(node is launches[0] for node in body)):
        return
    changed = _written_in_launches(subject, launches)
    for node in _outside(body):
        done = _does(node)
        if done is not None:
            yield DONE_OUTSIDE_LAUNCH.at(node.span, what=done)
            continue
        for buffer in _read(subject, node):
            if buffer.storage in changed:
                there = Related(changed[buffer.storage], "written here")
                yield CHANGED_BY_LAUNCH.at(node.span, related=(there,), buffer=buffer.name)
                break


def _outside(nodes: Sequence[Node]) -> Iterator[Node]:
    for node in nodes:
        if not isinstance(node, Launch):
            yield node
        if isinstance(node, For):
            yield from _outside(node.body)
        elif isinstance(node, If):
            yield from _outside([*node.body, *node.orelse])


def _does(node: Node) -> str | None:
    """What a statement changes, None where it only computes."""
    match node:
        case Store():
            return f"{node.buffer.name} is written"
        case Do():
            return f"{node.record.called} stands"
        case Evaluate() if not is_assumption(node.value) and not is_call(node.value, CHECK):
            return "this call stands"
    return None


def _read(subject: Subject, node: Node) -> Iterator[Buffer]:
    values: tuple[Any, ...] = ()
    match node:
        case Bind():
            values = (node.value,)
        case If():
            values = (node.condition,)
        case For():
            values = (*node.loop.mins, *node.loop.extents, node.condition)
    sources = [load.source for value in values if isinstance(value, ir.Expr) for load in loads_of(value)]
    for buffer in subject.program.buffers:
        if buffer.known and any(buffer.var.same_as(source) for source in sources):
            yield buffer


def _written_in_launches(subject: Subject, launches: Sequence[Launch]) -> dict[Buffer, Span]:
    """Where each tensor is first written in a launch."""
    found: dict[Buffer, Span] = {}
    inside = [node for launch in launches for node in walk(launch.body)]
    stores = {id(node): node for node in _outside(subject.program.body) if isinstance(node, Store)}
    beside = {node.span for node in stores.values()}
    for access in subject.program.accesses:
        if access.mode == "write" and access.span not in beside:
            found.setdefault(access.buffer.storage, access.span)
    for node in inside:
        if isinstance(node, Do):
            for touched in subject.accesses(node.record):
                if touched.mode != "read":
                    found.setdefault(touched.region.buffer.storage, node.span)
    return found
