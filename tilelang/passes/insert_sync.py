"""Barriers between threads of a block, where one thread may touch what another one touched before.

In:  thread-level statements; which control statements all threads of a block take together (`block_level`).
Out: the same with `tl.sync` wherever a statement reads or writes shared memory (or global memory that the
     kernel both reads and writes, or stores to in several places) after another statement's conflicting
     access, loops counted as coming back to their beginning.
     Inside the code of a team (`ir.teams`) it is a named barrier of the team. Teams are ordered by the
     author's own barriers; where a kernel has none, by those of the block between the teams' statements.
Not: races inside one statement, which are the author's; tiles versioned by a pipeline, which order
     themselves. A barrier is never placed where only some threads pass.

Two accesses do not conflict if every element that both touch belongs to one and the same thread in both
(`owner_table`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.rules.order import TOO_MANY_TEAMS, UNMET_EXCHANGE
from tilelang.ir import tile_ops
from tilelang.ir.evaluate import NotEvaluable, evaluate
from tilelang.ir.spans import place_of
from tilelang.ir.teams import Branches, Team, thread_numbers
from tilelang.ir.thread_ops import NAMED_ARRIVE, NAMED_SYNC
from tilelang.ir.tile_ops import seq
from tilelang.passes.accesses import accesses, all_accesses, barrier_buffers, storages
from tilelang.passes.owner_table import MANY, NOBODY, Threads, owner_table, value_range
from tilelang.passes.plan_pipelines import SETTLED
from tilelang.passes.walk import calls, children, constant, index, remake, walk, with_body

_NAMED_BARRIERS = 16  # PTX ISA, barrier


@dataclass(frozen=True, eq=False)
class _Touch:
    """One access; `owners` says for every element which thread touches it, None where that is not known.

    `atomic` accesses never conflict with each other. `bulk`: an asynchronous copy, whose end the author waits
    for. `team`: whose code it stands in, None for the block's. `by_author`: whether the author orders teams.
    """

    written: bool
    owners: np.ndarray | None
    atomic: bool = False
    bulk: bool = False
    team: Team | None = None
    by_author: bool = True


@dataclass
class _Pending:
    """Accesses since the last barrier, by buffer."""

    touches: dict[int, frozenset[_Touch]] = field(default_factory=dict)

    def conflicts(self, other: _Pending) -> bool:
        return any(
            _conflict(a, b)
            for handle, mine in self.touches.items()
            for a in mine
            for b in other.touches.get(handle, ())
        )

    def surely_conflicts(self, other: _Pending) -> bool:
        """Whether accesses conflict of which it is known whose they are."""
        return any(
            a.owners is not None and b.owners is not None and _conflict(a, b)
            for handle, mine in self.touches.items()
            for a in mine
            for b in other.touches.get(handle, ())
        )

    def merged(self, other: _Pending) -> _Pending:
        joined = dict(self.touches)
        for handle, touches in other.touches.items():
            joined[handle] = joined.get(handle, frozenset()) | touches
        return _Pending(joined)

    def of(self, team: Team | None) -> _Pending:
        """The accesses in code of `team` alone."""
        return self._where(lambda touch: touch.team == team)

    def of_others(self, team: Team | None) -> _Pending:
        """The accesses in other code than that of `team`."""
        return self._where(lambda touch: touch.team != team)

    def _where(self, holds: Callable[[_Touch], bool]) -> _Pending:
        kept = {h: frozenset(filter(holds, touches)) for h, touches in self.touches.items()}
        return _Pending({h: t for h, t in kept.items() if t})

    def covers(self, other: _Pending) -> bool:
        return all(
            touches <= self.touches.get(handle, frozenset()) for handle, touches in other.touches.items()
        )


def _conflict(a: _Touch, b: _Touch) -> bool:
    """Whether `b` must wait for `a`, which comes first."""
    if not (a.written or b.written) or (a.atomic and b.atomic):
        return False
    if a.team is not None and b.team is not None and a.team != b.team and a.by_author:
        return False
    if a.bulk and (b.bulk or a.written):
        return False  # so is waiting for what a bulk copy brings
    if a.owners is None or b.owners is None:
        return True
    both = (a.owners != NOBODY) & (b.owners != NOBODY)
    return bool((both & ((a.owners != b.owners) | (a.owners == MANY))).any())


def insert_sync(
    func: X.PrimFunc,
    block_level: Iterable[int],
    versioned: Iterable[int],
    teams: Mapping[int, Branches] = MappingProxyType({}),
    by_some: Mapping[int, str] = MappingProxyType({}),
) -> X.PrimFunc:
    """Apply the pass. `block_level`: handles of loops and conditions; `versioned`: handles of pipelined
    tiles; `teams`: handles of conditions whose branches are the code of teams; `by_some`: handles of what
    some threads that are no team have shared out among themselves, and the names of the operations.

    Raises KernelError (divergent-tile-op) where two of `by_some` in one branch need a barrier between them.
    """
    sync = _Sync(func, frozenset(block_level), frozenset(versioned), teams, by_some)
    body, _ = sync.statement(func.body, _Pending())
    return func.with_body(body)


class _Sync:
    def __init__(
        self,
        func: X.PrimFunc,
        block_level: frozenset[int],
        versioned: frozenset[int],
        teams: Mapping[int, Branches],
        by_some: Mapping[int, str],
    ) -> None:
        self._teams, self._by_some = teams, by_some
        self._team: Team | None = None  # whose code we are in
        self._numbers = _free_barriers(func.body)
        self._ids: dict[Team, int] = {}  # named barriers of teams
        self._block_level, self._versioned = block_level, versioned
        self._settled = 0
        self._blocks: set[int] = set()  # block variables
        self._around: dict[int, int] = {}  # variables of the loops around, where it is known how far they run
        self._threads: dict[int, int] = {}  # thread variables and their extents, x first
        self._named = {s.var.__chandle__(): s.value for s in walk(func.body) if isinstance(s, X.Bind)}
        self._leaves: dict[tuple[int, bool, Team | None], _Pending] = {}
        self.count = 0  # barriers placed by the current attempt
        self._storages = storages(func.body)
        read, written, scopes = set(), Counter(), {}
        for a in all_accesses(func.body):
            handle = self._storage(a.buffer)
            scopes[handle] = scopes.get(handle) or a.buffer.scope()
            if a.mode == "read":
                read.add(handle)
            else:
                written[handle] += 1
        barriers = barrier_buffers(func.body)  # whose order is the author's
        # A barrier of the block between teams that wait for each other would never be passed by all.
        self._by_author = bool(barriers) or _meets_by_hand(func.body)
        self._watched = {
            h
            for h, scope in scopes.items()
            if h not in barriers
            if scope.startswith("shared") or (scope == "global" and h in read and h in written)
        }
        # Results that are stored to several times: the last store must be the last one. Only where it is
        # known that another thread does it is a barrier worth its price.
        self._overwritten = {
            h for h, scope in scopes.items() if scope == "global" and written[h] > 1 and h not in read
        }

    def _storage(self, buffer: ir.Var) -> int:
        """The handle of the buffer, of its base where it is a view."""
        handle: int = buffer.__chandle__()
        return self._storages.get(handle, handle)

    def statement(self, stmt: Any, pending: _Pending) -> tuple[Any, _Pending]:
        """`stmt` with the barriers it needs, before it or inside, and what is pending after it."""
        if isinstance(stmt, X.SeqStmt):
            parts = []
            for part in stmt.seq:
                new, pending = self.statement(part, pending)
                parts += list(new.seq) if isinstance(new, X.SeqStmt) else [new]
            return seq(parts), pending
        if isinstance(stmt, X.AttrStmt):
            return self._attribute(stmt, pending)
        if _is_sync(stmt):
            return self._barrier(stmt), _Pending()
        if stmt.__chandle__() in self._teams:
            return self._branches(stmt, pending)
        if stmt.__chandle__() in self._block_level:
            if isinstance(stmt, X.IfThenElse):
                return self._if(stmt, pending)
            if isinstance(stmt, X.For | X.While):
                return self._loop(stmt, pending)
        return self._leaf(stmt, pending)

    def _attribute(self, stmt: X.AttrStmt, pending: _Pending) -> tuple[Any, _Pending]:
        if str(stmt.node.thread_tag).startswith("threadIdx"):
            self._threads[stmt.node.var.__chandle__()] = int(stmt.value)
        elif str(stmt.node.thread_tag).startswith("blockIdx"):
            self._blocks.add(stmt.node.var.__chandle__())
        result = pending

        def inside(body: Any) -> Any:
            nonlocal result
            new, result = self.statement(body, pending)
            return new

        return remake(stmt, inside), result

    def _leaf(self, stmt: Any, pending: _Pending) -> tuple[Any, _Pending]:
        if isinstance(stmt, X.IfThenElse) and self._by_some:
            self._refuse_exchange(stmt)
        own = self._touches(stmt)
        made = stmt
        if self._team is not None and any(_is_sync(part) for part in walk(stmt)):
            made = self._met_by_team(stmt)
        if pending.conflicts(own):
            return seq([self._barrier(stmt), made]), own
        return made, pending.merged(own) if own.touches else pending

    def _refuse_exchange(self, branch: X.IfThenElse) -> None:
        """What some threads share out among themselves, and then exchange: they have no barrier."""
        shared_out = [s for s in walk(branch) if s.__chandle__() in self._by_some]
        if len(shared_out) < 2 or any(_is_sync(s) for s in walk(branch)):
            return
        who = _threads_that(branch.condition, self._threads)
        if who is None:
            return
        outer, self._team = self._team, who
        touched = [self._touches(s) for s in shared_out]
        self._team = outer
        for k, later in enumerate(touched):
            for earlier in touched[:k]:
                if earlier.surely_conflicts(later):
                    stmt = shared_out[k]
                    op = self._by_some[stmt.__chandle__()]
                    raise KernelError([UNMET_EXCHANGE.at(place_of(stmt.span), op=op, threads=str(who))])

    def _met_by_team(self, stmt: Any) -> Any:
        """The author's barriers behind conditions and loops that all threads of the team take alike."""
        return self._barrier(stmt) if _is_sync(stmt) else remake(stmt, self._met_by_team)

    def _touches(self, stmt: Any) -> _Pending:
        key = (stmt.__chandle__(), self._settled > 0, self._team)
        found = self._leaves.get(key)
        if found is None:
            found = self._leaves[key] = self._measure(stmt)
        return found

    def _condition(self, stmt: Any) -> _Pending:
        """What the condition of `stmt` reads."""
        key = (stmt.__chandle__(), self._settled > 0, self._team)
        if key not in self._leaves:
            self._leaves[key] = self._measure(X.Evaluate(stmt.condition))
        return self._leaves[key]

    def _measure(self, stmt: Any) -> _Pending:
        touches: dict[int, set[_Touch]] = {}
        loops = _loops(stmt, self._around, self._named)
        for part in walk(stmt):
            for access in accesses(part):
                handle = self._storage(access.buffer)
                known_only = handle in self._overwritten
                if not known_only and handle not in self._watched:
                    continue
                if self._settled and handle in self._versioned:
                    continue
                # An instruction of the whole warp reads for other threads than the one that gives the
                # address.
                # Elements of a view have numbers of their own.
                alone = not isinstance(part, X.Evaluate) and handle not in self._storages.values()
                blocks = self._blocks if known_only else ()
                threads = Threads(self._threads, self._team, blocks, self._named)
                owners = owner_table(access.element, access.buffer, threads, loops) if alone else None
                if known_only and (owners is None or (owners == MANY).any()):
                    continue
                atomic = any(access.element.same_as(e) for e in _atomic_elements(part))
                touch = _Touch(
                    access.mode == "write", owners, atomic, _is_bulk(part), self._team, self._by_author
                )
                touches.setdefault(handle, set()).add(touch)
        return _Pending({h: frozenset(t) for h, t in touches.items()})

    def _barrier(self, stmt: Any) -> Any:
        """A barrier of the block, or a named one of the team."""
        self.count += 1
        team = self._team
        if team is None:
            return X.Evaluate(tile_ops.call(tile_ops.SYNC, [], span=stmt.span), stmt.span)
        if team not in self._ids:
            if not self._numbers:
                raise KernelError([TOO_MANY_TEAMS.at(place_of(stmt.span))])
            self._ids[team] = self._numbers.pop(0)
        args = [index(self._ids[team]), index(team.threads)]
        return X.Evaluate(tile_ops.call(NAMED_SYNC, args, span=stmt.span), stmt.span)

    def _branches(self, stmt: X.IfThenElse, pending: _Pending) -> tuple[Any, _Pending]:
        """Code of teams. What the block did before is met by a barrier of the block, if it has to be."""
        outer, parted = self._team, self._teams[stmt.__chandle__()]
        met = False
        for branch, team in zip(children(stmt), parted, strict=False):
            self._team = team
            for leaf in self._all_leaves(branch):
                met = met or pending.of_others(team).conflicts(self._touches(leaf))
        self._team = outer
        before = []
        if met:
            before, pending = [self._barrier(stmt)], _Pending()
        made, after = [], pending
        for branch, team in zip(children(stmt), parted, strict=False):
            self._team = team
            new, left = self.statement(branch, pending.of(team))
            made.append(new)
            after = after.merged(left)
        self._team = outer
        orelse = made[1] if len(made) > 1 else None
        return seq([*before, X.IfThenElse(stmt.condition, made[0], orelse, stmt.span)]), after

    def _if(self, stmt: X.IfThenElse, pending: _Pending) -> tuple[Any, _Pending]:
        own = self._condition(stmt)
        before = [self._barrier(stmt)] if pending.conflicts(own) else []
        pending = own if before else pending.merged(own)
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
        outer, around = self.count, self._around
        self._around = {**around, **_range(stmt, around, self._named)}
        alone, after_alone, needed_alone = self._fixpoint(stmt, _Pending())
        body, after, needed = alone, after_alone, needed_alone
        if pending.touches:
            body, after, needed = self._fixpoint(stmt, pending)
        self.count = outer
        before = []
        if needed > needed_alone:
            before, body, after, pending = [self._barrier(stmt)], alone, after_alone, _Pending()
            needed = needed_alone
        self.count += needed
        self._settled -= settled
        self._around = around
        return seq([*before, with_body(stmt, body)]), pending.merged(after)

    def _fixpoint(self, stmt: Any, entry: _Pending) -> tuple[Any, _Pending, int]:
        """The body when entered with `entry` or from its own end; what is pending at its end; its
        barriers.
        """
        # The loads of a condition happen before every iteration; a conflict is met by a barrier at the end.
        head = self._condition(stmt) if isinstance(stmt, X.While) else _Pending()
        if any(isinstance(s, X.Break | X.Continue) for s in walk(stmt.body)):
            return self._with_jumps(stmt, entry.merged(head))
        while True:
            self.count = 0
            body, after = self.statement(stmt.body, entry.merged(head))
            if after.conflicts(head):
                body, after = seq([body, self._barrier(stmt)]), _Pending()
            if entry.covers(after):
                return body, after, self.count
            entry = entry.merged(after)

    def _with_jumps(self, stmt: Any, entry: _Pending) -> tuple[Any, _Pending, int]:
        """A jump may skip any barrier of the body, so everything in it counts as pending at its beginning and
        end.
        """
        everything = entry
        for leaf in self._all_leaves(stmt.body):
            everything = everything.merged(self._touches(leaf))
        self.count = 0
        body, _ = self.statement(stmt.body, everything)
        return body, everything, self.count

    def _all_leaves(self, stmt: Any) -> Iterator[Any]:
        inner = isinstance(stmt, X.SeqStmt | X.AttrStmt) or stmt.__chandle__() in self._block_level
        if not inner:
            yield stmt
            return
        for child in children(stmt):
            yield from self._all_leaves(child)


def _threads_that(condition: Any, extents: Mapping[int, int]) -> Team | None:
    """The neighbouring threads for which a condition holds; None if it is not known, or they are not."""
    numbers = thread_numbers(list(extents.items()))
    try:
        holds = np.asarray(evaluate(condition, numbers), bool)
    except NotEvaluable:
        return None
    found = np.flatnonzero(np.broadcast_to(holds, (int(np.prod(list(extents.values()))),)))
    if not len(found) or found[-1] - found[0] + 1 != len(found):
        return None
    return Team(int(found[0]), len(found))


def _is_sync(stmt: Any) -> bool:
    return isinstance(stmt, X.Evaluate) and tile_ops.is_call(stmt.value, tile_ops.SYNC)


def _is_bulk(stmt: Any) -> bool:
    name = str(getattr(getattr(getattr(stmt, "value", None), "op", None), "name", ""))
    return name.removeprefix("tl.").removeprefix("cuda.").startswith(("tma_load", "tma_store_", "bulk_"))


def _meets_by_hand(body: Any) -> bool:
    """Whether threads wait for each other by named barriers, or in loops for what others write."""
    names = (NAMED_SYNC, NAMED_ARRIVE)
    named = any(tile_ops.is_call(c, name) for c in calls(body) for name in names)
    return named or any(isinstance(s, X.While) for s in walk(body))


def _free_barriers(body: Any) -> list[int]:
    """Named barriers that the author does not use; 0 is that of the block."""
    named = [c for c in calls(body) if tile_ops.is_call(c, NAMED_SYNC) or tile_ops.is_call(c, NAMED_ARRIVE)]
    taken = {constant(c.args[0]) for c in named}
    if None in taken:
        return []
    return [k for k in reversed(range(1, _NAMED_BARRIERS)) if k not in taken]


def _atomic_elements(stmt: Any) -> list[Any]:
    """The elements in `stmt` that atomics touch."""
    if not isinstance(stmt, X.Evaluate | X.Bind):
        return []
    return [c.args[0].args[0] for c in calls(stmt.value) if tile_ops.is_call(c, tile_ops.ATOMIC)]


def _loops(stmt: Any, around: Mapping[int, int], named: Mapping[int, Any]) -> dict[int, int]:
    """Loops in a leaf of which it is known where they end, and those `around` it: variable -> end."""
    found = {**around, **_range(stmt, around, named)}
    for child in children(stmt):
        found.update(_loops(child, found, named))
    return found


def _range(stmt: Any, around: Mapping[int, int], named: Mapping[int, Any]) -> dict[int, int]:
    """The variable of a loop over numbers from 0 on, and where it ends at the latest."""
    if not isinstance(stmt, X.For):
        return {}
    bounds = (value_range(e, around, named) for e in (stmt.min, stmt.min + stmt.extent))
    low, end = bounds
    if low is None or end is None or low[0] < 0:
        return {}
    return {stmt.loop_var.__chandle__(): max(0, end[1])}
