"""divergent-barrier: T.sync_threads in a branch that some threads of the block take and others do not."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.order import DIVERGENT_BARRIER
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_ops import SYNC, is_call
from tilelang.ir.tile_program import Evaluate, For, If, Launch, Node
from tilelang.ir.values import Value, as_int, show


def check(subject: Subject) -> Iterator[Problem]:
    """On the CPU the threads of a block take turns, and a barrier in a branch does no harm."""
    if subject.target.kind != "cpu" and subject.launch is not None:
        yield from _visit(subject, subject.launch.body, None)


def _visit(subject: Subject, nodes: list[Node], branch: If | None) -> Iterator[Problem]:
    for node in nodes:
        if isinstance(node, Evaluate) and branch is not None and is_call(node.value, SYNC):
            related = (Related(branch.span, "the branch"),)
            yield DIVERGENT_BARRIER.at(node.span, related=related, condition=show(branch.condition))
        elif isinstance(node, For | Launch):
            yield from _visit(subject, node.body, branch)
        elif isinstance(node, If):
            inner = node if branch is None and _divides_the_block(subject, node.condition) else branch
            yield from _visit(subject, node.body, inner)
            yield from _visit(subject, node.orelse, inner)


def _divides_the_block(subject: Subject, condition: Value) -> bool:
    """Whether the condition depends on the thread alone, holds for one thread and fails for another."""
    launch = subject.launch
    used = free_vars(condition)
    if launch is None or not used or not used <= set(launch.thread_vars):
        return False
    varying = {v: subject.ranges[v] for v in launch.thread_vars if v in subject.ranges}
    outcomes = {as_int(value) for value in subject.prover.extremes(condition, varying)}
    return {0, 1} <= outcomes
