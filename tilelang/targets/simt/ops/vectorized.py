"""T.vectorized in the code of one thread: a store that runs over neighbours in memory becomes wide accesses.

A loop of another form stays the serial loop that it is: the result is the same.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir
from tvm import tirx as X

from tilelang.ir.guarded_load import guarded_load
from tilelang.passes.parallel_loop import LoopAccess, ParallelLoop, in_memory, nested_parallel, parallel_loop
from tilelang.passes.walk import FRAGMENT, constant, index, map_operands, substitute, uses
from tilelang.targets.simt.block import Block, local, ramp, unrolled

ELSE_UNROLLED = "unrolled_otherwise"  # note of a loop that is written out where no wide access does its work


def lower_vectorized(stmt: X.For, block: Block) -> Any | None:
    """The wide accesses that do the loop's work for one thread; None where its form does not allow any.

    The body must be one store, under conditions that are the same for the neighbours done together.
    """
    count = constant(stmt.extent)
    if count is None or constant(stmt.min) is None:
        return None
    loop = parallel_loop(nested_parallel([stmt.loop_var], [count], _shifted(stmt), {}, stmt.span))
    body, conditions = loop.body, []
    while isinstance(body, X.IfThenElse) and body.else_case is None:
        conditions.append(body.condition)
        body = body.then_case
    if not isinstance(body, X.BufferStore):
        return None
    lanes = _lanes(loop, block)
    if lanes < 2 or not all(block.widths.uniform(c, stmt.loop_var, lanes) for c in conditions):
        return None
    group = X.Var("r", "int32")
    block.bind(group, count // lanes)
    first = index(0) if count == lanes else group * lanes
    done = _Group(loop, block, lanes, first).store(body)
    if done is None:
        return None
    for condition in reversed(conditions):
        here = block.simplify(substitute(condition, {stmt.loop_var: first}))
        done = done if constant(here) == 1 else X.IfThenElse(here, done, None, stmt.span)
    return done if count == lanes else unrolled(group, count // lanes, done, stmt.span)


def _shifted(stmt: X.For) -> Any:
    """The body for a variable that counts from 0."""
    low = constant(stmt.min)
    return substitute(stmt.body, {stmt.loop_var: stmt.loop_var + low}) if low else stmt.body


def _lanes(loop: ParallelLoop, block: Block) -> int:
    """How many iterations all accesses that depend on the variable can do at once."""
    inner = {loop.vars[0].__chandle__()}
    moving = [a for a in loop.accesses if any(uses(i, inner) for i in a.indices)]
    if any(a.buffer.scope() == FRAGMENT for a in loop.accesses):
        return 1
    stores = [a for a in moving if a.mode == "write"]
    if not stores or not any(in_memory(a.buffer) for a in moving):
        return 1
    if any(a.buffer.same_as(s.buffer) and not _same(a, s) for a in loop.accesses for s in stores):
        return 1  # an iteration may read what another has written
    return min(block.widths.access(loop, a) for a in moving)


def _same(a: LoopAccess, b: LoopAccess) -> bool:
    """Whether two accesses to one buffer name the same element in every iteration."""
    return all(tvm_ffi.structural_equal(x, y) for x, y in zip(a.indices, b.indices, strict=True))


class _Group:
    """`lanes` neighbouring iterations, from `first` on."""

    def __init__(self, loop: ParallelLoop, block: Block, lanes: int, first: Any) -> None:
        self.loop, self.block, self.lanes, self.first = loop, block, lanes, first
        self.inner = loop.vars[0]
        self._access = {a.element.__chandle__(): a for a in loop.accesses}

    def store(self, store: X.BufferStore) -> Any | None:
        target = self._wide(self._access[store.__chandle__()])
        load, condition = guarded_load(store.value)
        if load is not None and str(load.source.dtype) == str(store.buffer.dtype) and self._moves(load):
            return self._move(store, target, load, condition)
        before: list[Any] = []
        value = self._hoisted(store.value, before)
        through = in_memory(store.buffer)
        result = local(f"{store.buffer.name}_vec", str(store.buffer.dtype), self.lanes)
        lane = X.Var("v", "int32")
        self.block.bind(lane, self.lanes)
        at = {self.inner: self.first + lane}
        place = [lane] if through else [self.block.simplify(substitute(i, at)) for i in store.indices]
        one = X.BufferStore(result if through else store.buffer, substitute(value, at), place, store.span)
        each = unrolled(lane, self.lanes, one, store.span)
        if not through:
            return X.SeqStmt([*before, each]) if before else each
        wide = X.BufferStore(store.buffer, X.BufferLoad(result, [ramp(0, self.lanes)]), target, store.span)
        return X.SeqStmt([*before, X.AllocBuffer(result, span=store.span), each, wide])

    def _moves(self, load: Any) -> bool:
        return any(uses(i, {self.inner.__chandle__()}) for i in load.indices)

    def _move(self, store: X.BufferStore, target: list[Any], load: Any, condition: Any) -> Any | None:
        wide = X.BufferLoad(load.source, self._wide(self._access[load.__chandle__()]))
        moved = X.BufferStore(store.buffer, wide, target, store.span)
        if condition is None:
            return moved
        if not self.block.widths.uniform(condition, self.inner, self.lanes):
            return None
        here = self.block.simplify(substitute(condition, {self.inner: self.first}))
        zero = X.Broadcast(X.const(0, str(store.buffer.dtype)), self.lanes)
        return X.IfThenElse(here, moved, X.BufferStore(store.buffer, zero, target, store.span), store.span)

    def _hoisted(self, value: Any, before: list[Any]) -> Any:
        """`value` with unconditional loads from memory done at once before it, into arrays by lane."""
        if isinstance(value, ir.TensorLoad):
            if not in_memory(value.source) or not self._moves(value):
                return value
            array = local(f"{value.source.name}_vec", str(value.source.dtype), self.lanes)
            wide = X.BufferLoad(value.source, self._wide(self._access[value.__chandle__()]))
            before.append(X.AllocBuffer(array, span=self.loop.span))
            before.append(X.BufferStore(array, wide, [ramp(0, self.lanes)], self.loop.span))
            return X.BufferLoad(array, [self.inner - self.first])
        if guarded_load(value)[0] is not None or isinstance(value, X.And | X.Or):
            return value  # a load under a condition stays under it
        if isinstance(value, ir.Call) and str(getattr(value.op, "name", "")) == "tirx.if_then_else":
            return value
        return map_operands(value, lambda e: self._hoisted(e, before))

    def _wide(self, access: LoopAccess) -> list[Any]:
        """Indices of the group as one vector access."""
        at = {self.inner: self.first}
        *outer, last = (self.block.simplify(substitute(i, at)) for i in access.indices)
        return [*outer, ramp(last, self.lanes)]
