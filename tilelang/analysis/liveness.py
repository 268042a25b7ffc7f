"""Whether what is written to a tile may be read before it is replaced: backwards through the statements, with
one answer for the whole tile. All that may read it counts, and only what surely replaces all of it ends its
life.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from tilelang.analysis.contents import History, Touch
from tilelang.analysis.subject import Subject
from tilelang.ir.tile_program import For, If, Jump, Launch, Loop, Node, Store, walk
from tilelang.ir.values import Buffer, Value, as_int, same_size

from tvm import ir  # isort: skip


@dataclass(frozen=True)
class State:
    """Whether the tile may be read from here on before it is replaced, and by what it is replaced if not."""

    live: bool
    killers: frozenset[Touch] = frozenset()

    def join(self, other: State) -> State:
        return LIVE if self.live or other.live else State(False, self.killers | other.killers)


LIVE = State(True)


@dataclass(frozen=True, eq=False)
class Statements:
    """The orders of statements, as `Touch.order` counts them: of each alone, of the last one inside each, and
    of those that jump.
    """

    first: dict[Node, int]
    last: dict[Node, int]
    jumps: list[int]


def statements(subject: Subject) -> Statements:
    """Asked through `subject.shared(statements)`."""
    first = {node: order for order, node in enumerate(walk(subject.program.body), 1)}
    last: dict[Node, int] = {}
    for node, order in reversed(first.items()):
        inside = _inside(node)
        last[node] = last[inside[-1]] if inside else order
    return Statements(first, last, [k for node, k in first.items() if isinstance(node, Jump)])


def _inside(node: Node) -> list[Node]:
    if isinstance(node, If):
        return node.orelse or node.body
    return node.body if isinstance(node, For | Launch) else []


@dataclass(eq=False)
class Liveness:
    """`after`: the state behind each touch that writes. `stored`: what a store writes, by its order."""

    subject: Subject
    history: History
    after: dict[Touch, State] = field(default_factory=dict)
    stored: dict[int, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._statements = self.subject.shared(statements)
        self._by_order: dict[int, list[Touch]] = {}
        for touch in self.history.touches:
            self._by_order.setdefault(touch.order, []).append(touch)
        self._concerning = sorted({*self._by_order, *self._statements.jumps})
        self._reading = sorted({t.order for t in self.history.touches if t.mode != "write"})
        self._known: dict[tuple[For, State], State] = {}
        self._before(self.subject.program.body, State(False))

    def _before(self, nodes: list[Node], state: State, own: bool = False) -> State:
        """The state before a sequence of statements whose end has `state`.

        own: whether they stand in a T.Parallel of which each iteration touches its own element of the tile
        only.
        """
        for node in reversed(nodes):
            first, last = self._statements.first[node], self._statements.last[node]
            if _any_between(self._concerning, first, last):
                state = self._node(node, state, own)
        return state

    def _node(self, node: Node, state: State, own: bool) -> State:
        order = self._statements.first[node]
        if isinstance(node, Launch):
            state = self._before(node.body, state, own)
        elif isinstance(node, For):
            state = self._loop(node, state)
        elif isinstance(node, If):
            # The threads of a block may take different branches side by side.
            inside = _any_between(self._reading, order + 1, self._statements.last[node])
            start = LIVE if inside else state
            taken, other = (self._before(b, start, own) for b in (node.body, node.orelse))
            state = start if inside else taken.join(other)
        elif isinstance(node, Jump):
            state = LIVE
        elif isinstance(node, Store):
            self.stored[order] = node.value
        return self._touches(self._by_order.get(order, []), state, own)

    def _touches(self, touches: list[Touch], state: State, own: bool) -> State:
        after = state
        for touch in touches:
            if touch.mode != "read":
                before = self.after.get(touch)
                self.after[touch] = after if before is None else before.join(after)
                if touch.mode == "write" and self._replaces_all(touch, own):
                    state = State(False, frozenset({touch}))
        return LIVE if any(t.mode != "write" for t in touches) else state

    def _loop(self, node: For, out: State) -> State:
        """A loop in a loop comes by again and again with the same state: looked through once for each."""
        known = self._known.get((node, out))
        if known is None:
            known = self._known[node, out] = self._through(node, out)
        return known

    def _through(self, node: For, out: State) -> State:
        loop = node.loop
        if loop.kind == "Parallel" and self._own_elements(loop):
            entered = self._before(node.body, out, own=True)
        else:
            entered = self._before(node.body, out)
            again = self._before(node.body, out.join(entered))
            entered = self._before(node.body, out.join(again))
        surely = loop not in self.subject.loops_with_jumps and all((as_int(e) or 0) > 0 for e in loop.extents)
        return entered if surely else entered.join(out)

    def _own_elements(self, loop: Loop) -> bool:
        """Whether the loop goes through the whole tile, and an iteration touches one element only."""
        inside = self.history.inside(loop)
        return bool(inside) and all(_is_element(self.history.buffer, loop, t) for t in inside)

    def _replaces_all(self, touch: Touch, own: bool) -> bool:
        return own if touch.record is None else touch.is_whole(self.history.buffer)


def _any_between(orders: list[int], first: int, last: int) -> bool:
    at = bisect_left(orders, first)
    return at < len(orders) and orders[at] <= last


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
        isinstance(s, ir.Var) and s in extents and same_size(extents[s], d)
        for s, d in zip(touch.starts, tile.shape, strict=True)
    )
