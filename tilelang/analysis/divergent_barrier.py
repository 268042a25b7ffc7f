"""divergent-barrier: T.sync_threads where some threads of the block come and others do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilelang.analysis.iterations import iterations
from tilelang.analysis.subject import Subject
from tilelang.arch.tables import features
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rule import Rule
from tilelang.diagnostics.rules.order import BARRIER_AFTER_JUMP, BARRIER_IN_DIVERGENT_LOOP, DIVERGENT_BARRIER
from tilelang.diagnostics.span import Span
from tilelang.ir.evaluate import NotEvaluable
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_ops import SYNC, is_call
from tilelang.ir.tile_program import Context, Evaluate, For, If, Jump, Launch, Loop, Node
from tilelang.ir.values import Unknown, Value, show


@dataclass(frozen=True)
class Divergence:
    """What parts the threads: the rule that says it, its place, and its condition or bound as text."""

    rule: Rule
    span: Span
    text: str


def check(subject: Subject) -> Iterator[Problem]:
    """Where one thread runs the whole block, a barrier does no harm."""
    if features(subject.target).spreads_blocks and subject.launch is not None:
        yield from _visit(subject, subject.launch.body, (), None)


def _visit(
    subject: Subject, nodes: Sequence[Node], loops: tuple[Loop, ...], apart: Divergence | None
) -> Iterator[Problem]:
    for node in nodes:
        if isinstance(node, Evaluate) and apart is not None and _waits_for_all(node):
            related = (Related(apart.span, "the threads part here"),)
            yield apart.rule.at(node.span, related=related, condition=apart.text)
        elif isinstance(node, Launch):
            yield from _visit(subject, node.body, loops, apart)
        elif isinstance(node, For):
            inner = (*loops, node.loop)
            yield from _visit(subject, node.body, inner, apart or _by_loop(subject, node, loops))
        elif isinstance(node, If):
            parted = parts_threads(subject, (node.condition,), loops)
            branch = Divergence(DIVERGENT_BARRIER, node.span, show(node.condition)) if parted else None
            yield from _visit(subject, node.body, loops, apart or branch)
            yield from _visit(subject, node.orelse, loops, apart or branch)
            if parted and _jumps(node) and apart is None:
                apart = Divergence(BARRIER_AFTER_JUMP, node.span, show(node.condition))


def _waits_for_all(node: Evaluate) -> bool:
    """A named barrier with a count waits for those who come."""
    return is_call(node.value, SYNC) and not node.value.args


def _by_loop(subject: Subject, node: For, loops: tuple[Loop, ...]) -> Divergence | None:
    bounds = (*node.loop.mins, *node.loop.extents)
    if not parts_threads(subject, node.loop.extents, loops):
        return None
    return Divergence(BARRIER_IN_DIVERGENT_LOOP, node.loop.span, ", ".join(show(b) for b in bounds[1:]))


def parts_threads(subject: Subject, values: Sequence[Value], loops: tuple[Loop, ...]) -> bool:
    """Whether in some iteration of `loops` one of `values` is not the same for all threads of the block."""
    launch = subject.launch
    threads = set(launch.thread_vars) if launch is not None else set()
    for value in values:
        if isinstance(value, Unknown) or not free_vars(value) & threads:
            continue
        points = iterations(subject, Context(loops), (value,))
        if points is None:
            continue
        try:
            here = points.values(value).astype(int)
        except NotEvaluable:
            continue
        # A loop that may be left early is looked at in its first iteration only.
        early = {v for loop in loops if loop in subject.loops_with_jumps for v in loop.vars}
        first = tuple(slice(0, 1) if v in early else slice(None) for v in points.variables)
        here = here[first]
        axes = tuple(k for k, v in enumerate(points.variables) if v in threads)
        if bool((here.max(axis=axes) != here.min(axis=axes)).any()):
            return True
    return False


def _jumps(node: If) -> bool:
    """Whether a branch leaves the iteration of the loop around."""
    return any(isinstance(n, Jump) or (isinstance(n, If) and _jumps(n)) for n in (*node.body, *node.orelse))
