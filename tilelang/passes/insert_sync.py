"""Barriers between threads of a block, where one thread may touch what another one touched before.

In:  thread-level statements; which control statements all threads of a block take together (`block_level`).
Out: the same with `tl.sync` wherever a statement reads or writes shared memory (or global memory that the kernel both reads
     and writes) after another statement's conflicting access, loops counted as coming back to their beginning.
Not: races inside one statement, which are the author's; tiles versioned by a pipeline, which order themselves. A barrier is
     never placed where only some threads pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.ir.tile_ops import seq
from tilelang.passes.accesses import all_accesses
from tilelang.passes.plan_pipelines import SETTLED
from tilelang.passes.walk import remake, with_body


@dataclass
class _Pending:
    """Buffers touched since the last barrier."""

    read: set[int] = field(default_factory=set)
    written: set[int] = field(default_factory=set)

    def conflicts(self, other: _Pending) -> bool:
        return bool(self.written & (other.read | other.written) or self.read & other.written)

    def merged(self, other: _Pending) -> _Pending:
        return _Pending(self.read | other.read, self.written | other.written)

    def covers(self, other: _Pending) -> bool:
        return other.read <= self.read and other.written <= self.written


def insert_sync(func: X.PrimFunc, block_level: Iterable[int], versioned: Iterable[int]) -> X.PrimFunc:
    """Apply the pass. `block_level`: handles of loops and conditions; `versioned`: handles of pipelined tiles."""
    sync = _Sync(func, frozenset(block_level), frozenset(versioned))
    body, _ = sync.statement(func.body, _Pending())
    return func.with_body(body)


class _Sync:
    def __init__(self, func: X.PrimFunc, block_level: frozenset[int], versioned: frozenset[int]) -> None:
        self._block_level, self._versioned = block_level, versioned
        self._settled = 0
        self.count = 0  # barriers placed by the current attempt
        found = list(all_accesses(func.body))
        read = {a.buffer.__chandle__() for a in found if a.mode == "read"}
        written = {a.buffer.__chandle__() for a in found if a.mode == "write"}
        self._watched = {
            a.buffer.__chandle__()
            for a in found
            if a.buffer.scope().startswith("shared")
            or (a.buffer.scope() == "global" and a.buffer.__chandle__() in read & written)
        }

    def statement(self, stmt: Any, pending: _Pending) -> tuple[Any, _Pending]:
        """`stmt` with the barriers it needs, before it or inside, and what is pending after it."""
        if isinstance(stmt, X.SeqStmt):
            parts = []
            for part in stmt.seq:
                new, pending = self.statement(part, pending)
                parts += list(new.seq) if isinstance(new, X.SeqStmt) else [new]
            return seq(parts), pending
        if isinstance(stmt, X.AttrStmt):
            result = pending

            def inside(body: Any) -> Any:
                nonlocal result
                new, result = self.statement(body, pending)
                return new

            return remake(stmt, inside), result
        if isinstance(stmt, X.Evaluate) and tile_ops.is_call(stmt.value, tile_ops.SYNC):
            return stmt, _Pending()
        if stmt.__chandle__() in self._block_level:
            if isinstance(stmt, X.IfThenElse):
                return self._if(stmt, pending)
            if isinstance(stmt, X.For | X.While):
                return self._loop(stmt, pending)
        return self._leaf(stmt, pending)

    def _leaf(self, stmt: Any, pending: _Pending) -> tuple[Any, _Pending]:
        own = _Pending()
        for access in all_accesses(stmt):
            handle = access.buffer.__chandle__()
            if handle in self._watched and not (self._settled and handle in self._versioned):
                (own.read if access.mode == "read" else own.written).add(handle)
        if pending.conflicts(own):
            return seq([self._barrier(stmt), stmt]), own
        return stmt, pending.merged(own)

    def _barrier(self, stmt: Any) -> Any:
        self.count += 1
        return X.Evaluate(tile_ops.call(tile_ops.SYNC, [], span=stmt.span), stmt.span)

    def _if(self, stmt: X.IfThenElse, pending: _Pending) -> tuple[Any, _Pending]:
        head, pending = self._leaf(X.Evaluate(stmt.condition), pending)
        before = [head.seq[0]] if isinstance(head, X.SeqStmt) else []
        then, after = self.statement(stmt.then_case, pending)
        orelse, other = None, pending
        if stmt.else_case is not None:
            orelse, other = self.statement(stmt.else_case, pending)
        new = X.IfThenElse(stmt.condition, then, orelse, stmt.span)
        return seq([*before, new]), after.merged(other)

    def _loop(self, stmt: Any, pending: _Pending) -> tuple[Any, _Pending]:
        """Barriers that only the first iteration needs stand before the loop."""
        settled = isinstance(stmt, X.For) and SETTLED in stmt.annotations
        self._settled += settled
        outer = self.count
        alone, after_alone, needed_alone = self._fixpoint(stmt, _Pending())
        body, after, needed = self._fixpoint(stmt, pending)
        self.count = outer
        before = []
        if needed > needed_alone:
            before, body, after, pending = [self._barrier(stmt)], alone, after_alone, _Pending()
            needed = needed_alone
        self.count += needed
        self._settled -= settled
        if isinstance(stmt, X.While):
            new: Any = X.While(stmt.condition, body, stmt.span)
        else:
            new = with_body(stmt, body)
        return seq([*before, new]), pending.merged(after)

    def _fixpoint(self, stmt: Any, entry: _Pending) -> tuple[Any, _Pending, int]:
        """The body when entered with `entry` or from its own end; what is pending at its end; its barriers."""
        head = X.Evaluate(stmt.condition) if isinstance(stmt, X.While) else None
        while True:
            self.count = 0
            pending = entry
            if (
                head is not None
            ):  # its loads happen before every iteration; a conflict is met by a barrier at the end
                _, pending = self._leaf(head, pending)
            body, after = self.statement(stmt.body, pending)
            if head is not None and after.conflicts(self._touches(head)):
                body, after = seq([body, self._barrier(stmt)]), _Pending()
            if entry.covers(after):
                return body, after, self.count
            entry = entry.merged(after)

    def _touches(self, stmt: Any) -> _Pending:
        _, own = self._leaf(stmt, _Pending())
        return own
