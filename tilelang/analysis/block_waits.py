"""Where a block may wait for another one: for a flag in global memory, in a loop or in foreign code.

All blocks run the same program, so what a block writes behind such a place may come after what the others
have written; what it writes before waits for nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilelang.analysis.block_dependence import hands_out
from tilelang.analysis.subject import Subject
from tilelang.diagnostics.span import Span
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Bind, Do, Evaluate, For, If, Launch, Node, Store, walk
from tilelang.ir.values import Buffer


def behind_waits(subject: Subject) -> frozenset[Span]:
    """The statements that may come after a wait: behind it, or in one loop with it."""
    follower = _Follower(subject)
    follower.nodes(subject.launch.body if subject.launch is not None else [], False)
    return frozenset(follower.behind)


class _Follower:
    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._by_var = {b.var: b.storage for b in subject.program.buffers if b.known and b.scope == "global"}
        self._changed = {a.buffer.storage for a in subject.program.accesses if a.mode == "write"}
        for record in subject.records:
            touched = subject.accesses(record)
            self._changed |= {a.region.buffer.storage for a in touched if a.mode != "read"}
        self.behind: set[Span] = set()

    def nodes(self, nodes: Iterable[Node], waited: bool) -> bool:
        """Whether something was waited for up to the end of `nodes`."""
        for node in nodes:
            if isinstance(node, For):
                waited = waited or self._spins(node) or any(_waits(n) for n in walk(node.body))
            waited = waited or _waits(node)
            if waited and isinstance(node, Do | Store):
                self.behind.add(node.span)
            match node:
                case For() | Launch():
                    waited = self.nodes(node.body, waited)
                case If():
                    branches = [self.nodes(b, waited) for b in (node.body, node.orelse)]
                    waited = any(branches)
        return waited

    def _spins(self, loop: For) -> bool:
        """Whether a `while` loop looks at memory that blocks write, or some loop in it does."""
        loops = [n for n in (loop, *walk(loop.body)) if isinstance(n, For) and n.condition is not None]
        return any(not self._changed.isdisjoint(self._read_in(n)) for n in loops)

    def _read_in(self, loop: For) -> Iterator[Buffer]:
        values: list[object] = [loop.condition]
        for node in walk(loop.body):
            match node:
                case Bind() | Store() | Evaluate():
                    values.append(node.value)
                case If():
                    values.append(node.condition)
                case Do():
                    reads = (a for a in self._subject.accesses(node.record) if a.mode != "write")
                    yield from (a.region.buffer.storage for a in reads)
        yield from (self._by_var[v] for value in values for v in free_vars(value) if v in self._by_var)


def _waits(node: Node) -> bool:
    """Whether a statement by itself may wait, or is one of several that do together."""
    match node:
        case Do():
            return node.record.op == "atomic" and node.record.value("kind") == "load"
        case Evaluate():
            return any(word in str(node.value) for word in ("extern", "atomic"))
        case Bind() | Store():
            return hands_out(node.value)
    return False
