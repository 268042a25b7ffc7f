"""Branches, loops and stores that all threads of a team do alike, also where they name the thread.

In:  a function's statements, and the team.
Out: the handles of the branches and loops whose conditions and bounds have one value in the team, and of the
     stores of one value to one place. Values are followed in order: what differs only in other teams does not
     count, one value overwrites many, what only some threads set differs, and in a team of one warp a vote or
     what a shuffle takes from one lane is one value (work that one lane fetched for all).
Not: proofs about memory that others write at the same time: a load at one address counts as one value, and so
     does what foreign code answers to the same arguments. Fragments: outside of T.Parallel every thread holds
     them whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import ir
from tvm import tirx as X

from tilelang.ir import thread_ops, tile_ops
from tilelang.ir.evaluate import NotEvaluable, evaluate
from tilelang.ir.teams import WARP, Team, thread_numbers
from tilelang.passes.accesses import accesses, storages
from tilelang.passes.walk import children, constant, loop_kind, map_operands, variables

_PRIVATE = ("local", "local.var")
_IN_A_WARP = frozenset((*thread_ops.VOTES, *thread_ops.BALLOTS, *thread_ops.WARP_REDUCTIONS))


def taken_alike(body: Any, axes: Sequence[tuple[int, int]], team: Team) -> frozenset[int]:
    """Handles of the statements; `axes`: (handle, extent) of the thread variables, x first."""
    return frozenset(_Walk(body, axes, team).found())


class _Walk:
    """Follows what the team comes to, with the names whose values may differ between its threads."""

    def __init__(self, body: Any, axes: Sequence[tuple[int, int]], team: Team) -> None:
        whole = thread_numbers(axes)
        self._body = body
        self._numbers = {h: n[team.first : team.first + team.threads] for h, n in whole.items()}
        self._is_warp = team.threads == WARP
        self._storages = storages(body)
        self._alike: dict[int, bool] = {}
        # Of the innermost loop: whether only some threads may jump out of its body, and what differs there.
        self._left_by_some, self._at_jumps = False, set[int]()

    def found(self) -> list[int]:
        self._statement(self._body, set(self._numbers), False)
        return [handle for handle, alike in self._alike.items() if alike]

    def _statement(self, stmt: Any, differing: set[int], apart: bool) -> None:
        """Follow `stmt`, to which only some threads may come if `apart`; brings `differing` up to date."""
        if isinstance(stmt, X.IfThenElse):
            self._branch(stmt, differing, apart)
        elif isinstance(stmt, X.For | X.While):
            self._loop(stmt, differing, apart)
        elif isinstance(stmt, X.Bind):
            self._set(stmt.var.__chandle__(), apart or self._differs(stmt.value, differing), True, differing)
        elif isinstance(stmt, X.BufferStore):
            varies = apart or any(self._differs(e, differing) for e in (stmt.value, *stmt.indices))
            self._note(stmt, varies)
            if stmt.buffer.scope() in _PRIVATE:
                whole = math.prod(constant(n) or 2 for n in stmt.buffer.shape) == 1
                self._set(self._storage(stmt.buffer), varies, whole, differing)
        elif isinstance(stmt, X.Break | X.Continue):
            self._left_by_some |= apart
            self._at_jumps |= differing
        elif isinstance(stmt, X.Evaluate):
            written = (a.buffer for a in accesses(stmt) if a.mode == "write")
            differing.update(self._storage(b) for b in written if b.scope() in _PRIVATE)
        else:
            for child in children(stmt):
                self._statement(child, differing, apart)

    def _branch(self, stmt: Any, differing: set[int], apart: bool) -> None:
        parted = apart or self._differs(stmt.condition, differing)
        self._note(stmt, parted)
        holds = self._of_thread(stmt.condition)
        then, orelse = set(differing), set(differing)
        self._statement(stmt.then_case, then, parted)
        if stmt.else_case is not None:
            self._statement(stmt.else_case, orelse, parted)
        differing.clear()
        if holds is None or holds.any():  # what the team never comes to changes nothing for it
            differing |= then
        if holds is None or not holds.all():
            differing |= orelse

    def _loop(self, loop: Any, differing: set[int], apart: bool) -> None:
        """Until another iteration brings nothing new; a loop that only some may leave is not alike."""
        heads = [loop.condition] if isinstance(loop, X.While) else [loop.min, loop.extent]
        shared_out = loop_kind(loop) == "Parallel"
        outer = self._left_by_some, self._at_jumps
        self._left_by_some, self._at_jumps = False, set()
        while True:
            before, left = set(differing), self._left_by_some
            parted = apart or left or any(self._differs(e, differing) for e in heads)
            if isinstance(loop, X.For):
                self._set(loop.loop_var.__chandle__(), parted or shared_out, True, differing)
            self._statement(loop.body, differing, parted or shared_out)
            differing |= before | self._at_jumps
            if differing == before and left == self._left_by_some:
                break
        self._left_by_some, self._at_jumps = outer
        self._note(loop, parted)

    def _note(self, stmt: Any, parted: bool) -> None:
        """One statement may stand in several places, and is alike only if it is in all of them."""
        handle = stmt.__chandle__()
        self._alike[handle] = not parted and self._alike.get(handle, True)

    @staticmethod
    def _set(handle: int, varies: bool, whole: bool, differing: set[int]) -> None:
        if varies:
            differing.add(handle)
        elif whole:
            differing.discard(handle)

    def _storage(self, buffer: Any) -> int:
        handle: int = buffer.__chandle__()
        return self._storages.get(handle, handle)

    def _differs(self, expr: Any, differing: set[int]) -> bool:
        """Whether threads of the team may see different values of `expr`."""
        if isinstance(expr, ir.Var):
            return expr.__chandle__() in differing
        if isinstance(expr, ir.TensorLoad):
            if self._storage(expr.source) in differing:
                return True
        elif isinstance(expr, ir.Call) and (known := self._met(expr, differing)) is not None:
            return known
        operands: list[Any] = []
        map_operands(expr, lambda e: (operands.append(e), e)[1])
        if not any(self._differs(e, differing) for e in operands):
            return False
        values = self._of_thread(expr)
        return values is None or bool((values != values[0]).any())

    def _met(self, call: ir.Call, differing: set[int]) -> bool | None:
        """Whether a call differs whose answer depends on more than the arguments of the thread."""
        name = thread_ops.call_name(call)
        if name == tile_ops.ATOMIC:
            return True
        if name in thread_ops.BLOCK_VOTES or (self._is_warp and name in _IN_A_WARP):
            return False
        if name in thread_ops.SHUFFLES:
            one = self._is_warp and name == "tl.shfl_sync" and constant(call.args[2]) == WARP
            return self._differs(call.args[1 if one else 0], differing)
        return True if name in thread_ops.COLLECTIVES else None

    def _of_thread(self, expr: Any) -> np.ndarray | None:
        """The value in every thread of the team, of an expression of the thread's number alone."""
        if not all(v.__chandle__() in self._numbers for v in variables(expr)):
            return None
        try:
            values = np.asarray(evaluate(expr, self._numbers))
        except NotEvaluable:
            return None
        return np.broadcast_to(values, (len(next(iter(self._numbers.values()), [0])),))
