"""unused-result, of one statement: what it writes to a tile is overwritten before anything reads it, or the
kernel ends.

The tile is read elsewhere, so that unused-result proper has nothing to say. Found by liveness, backwards
through the tree of statements, with one answer for the whole tile: all that may read it counts, and only what
surely replaces all of it ends its life.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from tilelang.analysis.contents import History, Touch, histories
from tilelang.analysis.dataflow import dataflow, mentioned_elsewhere
from tilelang.analysis.subject import Subject, is_tile
from tilelang.analysis.unused_result import unused
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.order import UNREAD_BEFORE_OVERWRITTEN, UNREAD_WRITE
from tilelang.diagnostics.span import Span
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import For, If, Jump, Launch, Loop, Node, Store, walk
from tilelang.ir.values import Buffer, Value, as_int
from tilelang.ops.operands import declared

from tvm import ir  # isort: skip
from tilelang.parsing import parse


def check(subject: Subject) -> Iterator[Problem]:
    """Statements in the kernel's own text whose every run writes in vain.

    Start values are left out, and so are tiles that may be read where these values of the parameters do not
    lead.
    """
    if not subject.program.complete or not subject.shared(dataflow).has_result:
        return
    told = {h.buffer for h in subject.shared(unused)}
    candidates = [h for h in subject.shared(histories) if h.buffer not in told and _followed(h)]
    if not any(h.reads for h in candidates):
        return
    nodes = {node: order for order, node in enumerate(walk(subject.program.body), 1)}
    used: set[Span] = set()
    found: list[tuple[History, Touch, frozenset[Touch]]] = []
    for history in candidates:
        liveness = _Liveness(subject, history, nodes)
        liveness.before(subject.program.body, _State(False), _NOWHERE)
        for touch in history.writes:
            after = liveness.after[touch]
            if after.live or _start_value(touch, liveness.stored.get(touch.order)):
                used.add(touch.span)
            else:
                found.append((history, touch, after.killers))
    for history, touch, killers in found:
        read = any(t.mode != "write" for t in history.touches if t.order != touch.order)
        if not read or touch.span in used or not _alone(subject, touch):
            continue
        if _own(subject, touch.span) and not mentioned_elsewhere(subject, history.buffer):
            yield _problem(history, touch, killers)


def _followed(history: History) -> bool:
    tile = history.buffer
    return (
        is_tile(tile)
        and tile.role is None
        and not history.escaped
        and not tile.empty
        and tile.scope != "local.reducer"
        and not any(t.context.maybe or t.starts is None for t in history.touches)
        and not any(t.record is not None and t.record.op == "atomic" for t in history.touches)
    )


@dataclass(frozen=True)
class _State:
    """Whether the tile may be read from here on before it is replaced, and by what it is replaced if not."""

    live: bool
    killers: frozenset[Touch] = frozenset()

    def join(self, other: _State) -> _State:
        return _State(self.live or other.live, self.killers | other.killers)


@dataclass(frozen=True)
class _Place:
    """The T.Parallel loop around a statement, if all touches of the tile in it are of the iteration's own
    element; whether each iteration comes to the statement.
    """

    loop: Loop | None = None
    always: bool = True


_NOWHERE = _Place()


@dataclass(eq=False)
class _Liveness:
    subject: Subject
    history: History
    nodes: dict[Node, int]
    after: dict[Touch, _State] = field(default_factory=dict)
    stored: dict[int, Value] = field(default_factory=dict)  # by order: what a store writes

    def __post_init__(self) -> None:
        self._by_order: dict[int, list[Touch]] = {}
        for touch in self.history.touches:
            self._by_order.setdefault(touch.order, []).append(touch)

    def before(self, nodes: list[Node], state: _State, place: _Place) -> _State:
        """The state before a sequence of statements whose end has `state`."""
        for node in reversed(nodes):
            state = self._node(node, state, place)
        return state

    def _node(self, node: Node, state: _State, place: _Place) -> _State:
        own = self._by_order.get(self.nodes[node], [])
        if isinstance(node, Launch):
            state = self.before(node.body, state, place)
        elif isinstance(node, For):
            state = self._loop(node, state)
        elif isinstance(node, If):
            # The threads of a block may take different branches side by side.
            inside = self._reads_in(node)
            start = _State(True) if inside else state
            branch = _Place(place.loop, False) if place.loop is not None else place
            taken, other = (self.before(b, start, branch) for b in (node.body, node.orelse))
            state = start if inside else taken.join(other)
        elif isinstance(node, Jump):
            state = _State(True)
        elif isinstance(node, Store):
            self.stored[self.nodes[node]] = node.value
        return self._touches(own, state, place)

    def _touches(self, own: list[Touch], state: _State, place: _Place) -> _State:
        after = state
        for touch in own:
            if touch.mode != "read":
                before = self.after.get(touch)
                self.after[touch] = after if before is None else before.join(after)
                if touch.mode == "write" and self._replaces_all(touch, place):
                    state = _State(False, frozenset({touch}))
        return _State(True) if any(t.mode != "write" for t in own) else state

    def _loop(self, node: For, out: _State) -> _State:
        loop = node.loop
        if loop.kind == "Parallel" and self._own_elements(node):
            entered = self.before(node.body, out, _Place(loop))
        else:
            entered = self.before(node.body, out, _NOWHERE)
            again = self.before(node.body, out.join(entered), _NOWHERE)
            entered = self.before(node.body, out.join(again), _NOWHERE)
        surely = node.loop not in self.subject.loops_with_jumps and all(
            (as_int(e) or 0) > 0 for e in loop.extents
        )
        return entered if surely else entered.join(out)

    def _own_elements(self, node: For) -> bool:
        """Whether the loop goes through the whole tile, and an iteration touches one element only."""
        loop = node.loop
        inside = [t for t in self.history.touches if loop in t.context.loops]
        return bool(inside) and all(_is_element(self.history.buffer, loop, t) for t in inside)

    def _reads_in(self, node: If) -> bool:
        first = self.nodes[node] + 1
        last = first + sum(1 for _ in walk([*node.body, *node.orelse])) - 1
        return any(first <= t.order <= last and t.mode != "write" for t in self.history.touches)

    def _replaces_all(self, touch: Touch, place: _Place) -> bool:
        if touch.record is None:
            return place.loop is not None
        tile = self.history.buffer
        if touch.starts is None or len(touch.extents) != len(tile.shape):
            return False
        return all(as_int(s) == 0 for s in touch.starts) and all(
            _same(e, d) for e, d in zip(touch.extents, tile.shape, strict=True)
        )


def _is_element(tile: Buffer, loop: Loop, touch: Touch) -> bool:
    """Whether a touch is of the element that the loop's variables name, each of a whole dimension."""
    if touch.record is not None or touch.starts is None or len(touch.starts) != len(tile.shape):
        return False
    if touch.context.loops[-1] is not loop:
        return False
    extents = {v: e for v, low, e in zip(loop.vars, loop.mins, loop.extents, strict=True) if as_int(low) == 0}
    if len(touch.starts) != len(loop.vars) or len({id(s) for s in touch.starts}) < len(touch.starts):
        return False
    return all(
        isinstance(s, ir.Var) and s in extents and _same(extents[s], d)
        for s, d in zip(touch.starts, tile.shape, strict=True)
    )


def _same(a: Value, b: Value) -> bool:
    return a is b or (as_int(a) is not None and as_int(a) == as_int(b))


def _start_value(touch: Touch, stored: Value) -> bool:
    """Whether a statement only fills with a value that depends on no data."""
    if touch.record is not None:
        return touch.record.op == "fill"
    return not free_vars(stored)


def _alone(subject: Subject, touch: Touch) -> bool:
    """Whether an operation writes nothing else."""
    record = touch.record
    return record is None or sum(a.mode != "read" for a in subject.accesses(record)) == 1


def _own(subject: Subject, span: Span) -> bool:
    """Whether a statement stands in the kernel's text, and in no loop that Python ran through: its last
    round may prepare another one.
    """
    program = subject.program
    if span.path != program.span.path or not program.span.line <= span.line <= program.span.end_line:
        return False
    try:
        tree = parse(subject.text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    traced = {n.loop.span.line for n in walk(program.body) if isinstance(n, For)}
    return not any(
        n.lineno <= span.line <= (n.end_lineno or n.lineno) and n.iter.lineno not in traced
        for n in ast.walk(tree)
        if isinstance(n, ast.For)
    )


def _problem(history: History, touch: Touch, killers: frozenset[Touch]) -> Problem:
    tile = history.buffer
    ends = min(killers, key=lambda t: t.order, default=None)
    later = next((t for t in sorted(killers, key=lambda t: t.order) if t.order > touch.order), ends)
    related = (
        () if later is None or later is touch else (Related(later.span, f"{tile.name} is overwritten here"),)
    )
    rule = UNREAD_WRITE if later is None or later is touch else UNREAD_BEFORE_OVERWRITTEN
    return rule.at(
        touch.span,
        related=(*related, *declared(tile)),
        tags=("unnecessary",),
        buffer=tile.name,
        line=0 if later is None else later.span.line,
    )
