"""divergent-barrier: T.sync_threads where some threads of the block come and others do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilelang.analysis.barrier_moves import barrier_moves
from tilelang.analysis.iterations import iterations
from tilelang.analysis.subject import Subject
from tilelang.arch.tables import features
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rule import Rule
from tilelang.diagnostics.rules.order import (
    BARRIER_AFTER_JUMP,
    BARRIER_IN_DIVERGENT_LOOP,
    DIVERGENT_BARRIER,
    GRID_BARRIER_IN_UNEVEN_LOOP,
    GRID_BARRIER_OF_SOME,
)
from tilelang.diagnostics.span import Span
from tilelang.ir.evaluate import NotEvaluable
from tilelang.ir.prove import free_vars
from tilelang.ir.teams import Team
from tilelang.ir.thread_ops import SYNC_GRID
from tilelang.ir.tile_ops import SYNC, is_call
from tilelang.ir.tile_program import Context, Evaluate, For, Guard, If, Jump, Launch, Loop, Node, walk
from tilelang.ir.values import Unknown, Value, show

from tvm import ir  # isort: skip


@dataclass(frozen=True)
class Divergence:
    """What parts the threads: the rule that says it, its place, and its condition or bound as text."""

    rule: Rule
    span: Span
    text: str


@dataclass(frozen=True)
class Place:
    """Where a statement stands: its loops from outside in, and the team whose code it is.

    `team` is None where none has barriers of its own. `guards` part it from the rest of the block.
    """

    loops: tuple[Loop, ...] = ()
    team: Team | None = None
    guards: tuple[Guard, ...] = ()

    def inside(self, loop: Loop) -> Place:
        return replace(self, loops=(*self.loops, loop))

    def apart(self) -> Place:
        """Where only some threads of a warp come, or not all at the same time."""
        return replace(self, team=None)

    def branches(self, subject: Subject, node: If) -> tuple[Place, Place] | None:
        """The branches of a condition as the code of teams, which can meet in them; else None."""
        parted = subject.context.teams_of(node.condition, bool(node.orelse), self.team)
        if parted is None:
            return None
        return self._of(node, False, parted[0]), self._of(node, True, parted[1])

    def _of(self, node: If, negated: bool, team: Team | None) -> Place:
        guard = Guard(node.condition, negated, node.span)
        return replace(self, team=team, guards=(*self.guards, guard))


def check(subject: Subject) -> Iterator[Problem]:
    """Where one thread runs the whole block, a barrier does no harm."""
    if features(subject.target).spreads_blocks and subject.launch is not None:
        yield from _visit(subject, subject.launch.body, Place(team=subject.context.whole_block()), None)
        yield from _blocks_apart(subject, subject.launch.body, Place(), None)


def _visit(
    subject: Subject, nodes: Sequence[Node], place: Place, apart: Divergence | None
) -> Iterator[Problem]:
    for node in nodes:
        if isinstance(node, Evaluate) and apart is not None and _waits_for_all(node):
            related = (Related(apart.span, "the threads part here"),)
            fixes = barrier_moves(subject, node.span, apart.span) if apart.rule is DIVERGENT_BARRIER else ()
            of_grid = is_call(node.value, SYNC_GRID)
            yield apart.rule.at(
                node.span,
                related=related,
                fixes=fixes,
                barrier="T.sync_grid" if of_grid else "T.sync_threads",
                whom="every block" if of_grid else "the block",
                condition=apart.text,
            )
        elif isinstance(node, Launch):
            yield from _visit(subject, node.body, place, apart)
        elif isinstance(node, For):
            parting = apart or _by_loop(subject, node, place)
            inner = place.inside(node.loop)
            yield from _visit(subject, node.body, inner if parting is None else inner.apart(), parting)
        elif isinstance(node, If):
            yield from _branches(subject, node, place, apart)
            if apart is None and _jumps(node) and parts_threads(subject, (node.condition,), place):
                apart = Divergence(BARRIER_AFTER_JUMP, node.span, show(node.condition))
                place = place.apart()


def _blocks_apart(
    subject: Subject, nodes: Sequence[Node], place: Place, apart: Divergence | None
) -> Iterator[Problem]:
    """T.sync_grid where some blocks come and others do not; where both branches have one, all meet."""
    for node in nodes:
        match node:
            case Evaluate() if apart is not None and is_call(node.value, SYNC_GRID):
                related = (Related(apart.span, "the blocks part here"),)
                yield apart.rule.at(node.span, related=related, condition=apart.text)
            case Launch():
                yield from _blocks_apart(subject, node.body, place, apart)
            case For():
                parting = apart
                if apart is None and parts_threads(subject, node.loop.extents, place, of_blocks=True):
                    extents = ", ".join(show(e) for e in node.loop.extents)
                    parting = Divergence(GRID_BARRIER_IN_UNEVEN_LOOP, node.loop.span, extents)
                yield from _blocks_apart(subject, node.body, place.inside(node.loop), parting)
            case If():
                parting = apart
                both = all(any(_syncs_grid(n) for n in walk(b)) for b in (node.body, node.orelse))
                if (
                    apart is None
                    and not both
                    and parts_threads(subject, (node.condition,), place, of_blocks=True)
                ):
                    parting = Divergence(GRID_BARRIER_OF_SOME, node.span, show(node.condition))
                yield from _blocks_apart(subject, [*node.body, *node.orelse], place, parting)


def _syncs_grid(node: Node) -> bool:
    return isinstance(node, Evaluate) and is_call(node.value, SYNC_GRID)


def _branches(subject: Subject, node: If, place: Place, apart: Divergence | None) -> Iterator[Problem]:
    teams = place.branches(subject, node)
    if teams is not None:  # a barrier is one of the team
        yield from _visit(subject, node.body, teams[0], apart)
        yield from _visit(subject, node.orelse, teams[1], apart)
        return
    if apart is None and parts_threads(subject, (node.condition,), place):
        apart, place = Divergence(DIVERGENT_BARRIER, node.span, show(node.condition)), place.apart()
    yield from _visit(subject, node.body, place, apart)
    yield from _visit(subject, node.orelse, place, apart)


def _waits_for_all(node: Evaluate) -> bool:
    """A named barrier with a count waits for those who come."""
    return (is_call(node.value, SYNC) and not node.value.args) or is_call(node.value, SYNC_GRID)


def _by_loop(subject: Subject, node: For, place: Place) -> Divergence | None:
    bounds = (*node.loop.mins, *node.loop.extents)
    if not parts_threads(subject, node.loop.extents, place):
        return None
    return Divergence(BARRIER_IN_DIVERGENT_LOOP, node.loop.span, ", ".join(show(b) for b in bounds[1:]))


def parts_threads(
    subject: Subject, values: Sequence[Value], place: Place, *, of_blocks: bool = False
) -> bool:
    """Whether in some iteration of the loops one of `values` is not the same for all threads that come, or
    for all blocks.
    """
    launch = subject.launch
    threads: set[ir.Var] = set()
    if launch is not None:
        threads = set(launch.block_vars if of_blocks else launch.thread_vars)
    for value in values:
        if isinstance(value, Unknown) or not free_vars(value) & threads:
            continue
        points = iterations(subject, Context(place.loops, place.guards), (value,))
        if points is None:
            continue
        try:
            here = points.values(value).astype(int)
        except NotEvaluable:
            continue
        # A loop that may be left early is looked at in its first iteration only.
        early = {v for loop in place.loops if loop in subject.loops_with_jumps for v in loop.vars}
        first = tuple(slice(0, 1) if v in early else slice(None) for v in points.variables)
        here, comes = here[first], points.active[first]
        axes = tuple(k for k, v in enumerate(points.variables) if v in threads)
        most = here.max(axis=axes, where=comes, initial=np.iinfo(int).min)
        if bool((most > here.min(axis=axes, where=comes, initial=np.iinfo(int).max)).any()):
            return True
    return False


def _jumps(node: If) -> bool:
    """Whether a branch leaves the iteration of the loop around."""
    return any(isinstance(n, Jump) or (isinstance(n, If) and _jumps(n)) for n in (*node.body, *node.orelse))
