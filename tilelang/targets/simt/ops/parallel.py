"""A Parallel loop on the threads of a block: each thread runs its iterations, unrolled, with wide memory
accesses.

The loop's Fragment gives the iterations of a thread, `(i, j) = layout.indices(thread, r)`. Groups of
iterations that are neighbours in memory are done together: wide loads into small arrays, arithmetic lane by
lane, a wide store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import tvm_ffi
from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.rules import layout as rules
from tilelang.diagnostics.rules.scope import ATOMIC_REPLICATED
from tilelang.ir import tile_ops
from tilelang.ir.evaluate import NotEvaluable, is_choice
from tilelang.ir.guarded_load import guarded_load
from tilelang.ir.spans import place_of
from tilelang.ir.tile_ops import seq
from tilelang.layout.fragment import Fragment
from tilelang.ops.atomic import Atomic
from tilelang.passes.flatten import UNROLL
from tilelang.passes.guard_bounds import conjunction
from tilelang.passes.layout_sites import inner_loops
from tilelang.passes.loop_layouts import contiguous_registers, owned_registers
from tilelang.passes.parallel_loop import LoopAccess, ParallelLoop, in_memory, nested_parallel, parallel_loop
from tilelang.passes.walk import (
    FRAGMENT,
    calls,
    constant,
    index,
    map_operands,
    remake,
    substitute,
    uses,
    variables,
    walk,
)
from tilelang.targets.simt.block import Block, local, ramp, unrolled
from tilelang.targets.simt.ops.held_reads import Key, held_reads, in_two, key_of
from tilelang.targets.simt.ops.registers import Radix, fit_digits

_UNROLLED = 32  # groups of a loop over memory that are unrolled completely
_STEPS = 8  # else so many at a time


def lower_parallel(loop: ParallelLoop, block: Block) -> Any:
    """The statement that each thread of the block runs for its part of `loop`."""
    if loop.shape is None:
        return by_turns(loop, block)
    try:
        if loop.stmt.__chandle__() in block.layouts.exchanges:
            return _exchange(loop, block)
        return _run(loop, block, block.layouts.loops[loop.stmt.__chandle__()])
    except NotEvaluable as problem:
        span = place_of(loop.span)
        raise KernelError([rules.FRAGMENT_LAYOUT.at(span, buffer=problem.args[0])]) from problem


def _run(loop: ParallelLoop, block: Block, layout: Fragment) -> Any:
    """The loop in one, or in two where threads that share an iteration would miss what one has stored."""
    try:
        return ParallelLowering(loop, block, layout).run()
    except NotEvaluable:
        parts = in_two(loop) if layout.replicas > 1 else None
        if parts is None:
            raise
        return seq([_run(part, block, layout) for part in parts])


def _exchange(loop: ParallelLoop, block: Block) -> Any:
    """A copy between fragments whose elements lie in different threads: through shared memory."""
    store = loop.body
    source, target = block.layouts.exchanges[loop.stmt.__chandle__()]
    shape = loop.shape or ()
    space = X.decl_buffer(shape, str(store.buffer.dtype), f"{store.buffer.name}_shared", scope="shared")
    block.workspaces.append(space)
    halves = (
        (source, X.BufferStore(space, store.value, list(loop.vars), store.span)),
        (
            target,
            X.BufferStore(
                store.buffer, X.BufferLoad(space, list(loop.vars)), list(store.indices), store.span
            ),
        ),
    )
    parts = []
    for layout, body in halves:
        half = parallel_loop(nested_parallel(list(loop.vars), list(shape), body, {}, loop.span))
        parts.append(ParallelLowering(half, block, layout).run())
    return seq(parts)


def by_turns(loop: ParallelLoop, block: Block) -> Any:
    """Extents known only at run time, or only a range of the threads at work: they take turns, one element
    each. Such a loop touches memory only.
    """
    total: Any = index(1)
    for extent in loop.extents:
        total = total * index(extent)
    total = block.simplify(total)
    turn = X.Var("turn", "int32")
    flat = turn * block.threads + block.thread
    values: dict[int, Any] = {}
    rest = flat
    for var, extent in reversed(list(zip(loop.vars, loop.extents, strict=True))):
        values[var.__chandle__()] = rest % index(extent) if var is not loop.vars[0] else rest
        rest = rest // index(extent)
    body = tvm_ffi.structural_map(loop.body, (ir.Var, lambda v: values.get(v.__chandle__(), v)))
    guarded = X.IfThenElse(flat < total, body, None, loop.span)
    count = (total + (block.threads - 1)) // block.threads
    return X.For(turn, index(0), block.simplify(count), X.ForKind.SERIAL, guarded, span=loop.span)


class ParallelLowering:
    """One loop being lowered: `lanes` iterations at once, `count` groups of them in each thread."""

    def __init__(self, loop: ParallelLoop, block: Block, layout: Fragment | None = None) -> None:
        self.loop, self.block = loop, block
        self.layout: Fragment = layout or block.layouts.loops[loop.stmt.__chandle__()]
        self.widths = block.widths
        self.inner = loop.vars[-1]
        self.access = {a.element.__chandle__(): a for a in loop.accesses}
        self._reads = held_reads(loop.body) if self.layout.replicas > 1 else {}
        self._held: dict[Key, ir.Var] = {}  # registers with what was read first
        self.lanes = self._choose_lanes()
        self.group = X.Var("r", "int32")
        self.count = self.layout.registers // self.lanes
        block.bind(self.group, self.count)
        position: Any = self.group if self.lanes == 1 else self.group * self.lanes
        self.position = index(0) if self.count == 1 else position
        self.at: dict[int, Any] = {
            v.__chandle__(): block.simplify(i)
            for v, i in zip(loop.vars, self.layout.indices(block.thread, self.position), strict=True)
        }
        self._in_lane: set[int] = set()  # scalars that each lane binds for itself
        self._loaded: dict[
            Any, ir.Var
        ] = {}  # wide loads of the current statement, so that none is done twice
        self._tables: dict[tuple[int, str], tuple[np.ndarray, np.ndarray, list[Radix]]] = {}

    def run(self) -> Any:
        if self._reads:
            return self._read_first()
        if self.lanes == 1:
            body = self._scalar(self.loop.body, None)
        elif _binds(self.loop.body):
            body = self._fused(self.loop.body)
        else:
            body = self._vector(self.loop.body)
        return self.unroll(body)

    def _read_first(self) -> Any:
        """All threads read what the loop overwrites, then they run it: one of those that share an iteration
        stores.
        """
        arrays: dict[Key, ir.Var] = {}
        steps = []
        for key, read in self._reads.items():
            buffer = read.load.source
            array = local(f"{buffer.name}_held", str(buffer.dtype), self.layout.registers)
            store = X.BufferStore(array, self.expression(read.load, None), [self.position], self.loop.span)
            if read.condition is not None:
                store = X.IfThenElse(self.expression(read.condition, None), store, None, self.loop.span)
            steps.append(store)
            arrays[key] = array
        first = self.unroll(seq(steps))
        self._held = arrays
        rest = self.unroll(self._scalar(self.loop.body, None))
        return seq([*(X.AllocBuffer(a, span=self.loop.span) for a in arrays.values()), first, rest])

    def unroll(self, body: Any) -> Any:
        """`body`, what one group does, for all groups of the thread that are iterations of the loop."""
        guard = self._inside()
        if guard is not None:
            body = X.IfThenElse(guard, body, None, self.loop.span)
        if self.count == 1:
            return body
        in_registers = any(a.buffer.scope() == FRAGMENT for a in self.loop.accesses)
        if in_registers or self.count <= _UNROLLED:
            return unrolled(self.group, self.count, body, self.loop.span)
        # Only registers need constant indices; code that touches memory alone need not be that long.
        notes = {UNROLL: _STEPS}
        kind = X.ForKind.SERIAL
        return X.For(
            self.group, index(0), index(self.count), kind, body, annotations=notes, span=self.loop.span
        )

    def first_indices(self, element: Any) -> list[Any] | None:
        """Indices of the group's first element of an access to memory; None where the lanes are no
        neighbours.
        """
        access = self.access.get(element.__chandle__())
        if access is None or not in_memory(access.buffer):
            return None
        if self.widths.access(self.loop, access) < self.lanes:
            return None
        if any(uses(i, self._in_lane) for i in access.indices):
            return None
        return [self.block.simplify(self.expression(i, None)) for i in access.indices]

    # How many iterations at once

    def _choose_lanes(self) -> int:
        if self._reads:
            return 1
        neighbours = contiguous_registers(self.layout)
        lanes = 1
        while neighbours % (lanes * 2) == 0:
            lanes *= 2
        widest = max(
            (self.widths.access(self.loop, a) for a in self.loop.accesses if in_memory(a.buffer)), default=1
        )
        lanes = min(lanes, widest)
        if not (_independent(self.loop.body) or _fusable(self.loop)):
            return 1
        while lanes > 1 and not self._whole_groups(lanes):
            lanes //= 2
        return lanes

    def _whole_groups(self, lanes: int) -> bool:
        """Whether a group lies inside the loop or outside as a whole."""
        if self.layout.exact:
            return True
        if self.layout.by_dimension() is None:
            return int(np.prod(self.layout.shape)) % lanes == 0
        return self.layout.shape[-1] % lanes == 0

    def _inside(self) -> Any | None:
        """The condition that this position is an iteration at all; None if it always is."""
        layout = self.layout
        if layout.exact:
            return None
        conditions = []
        for v, n in zip(self.loop.vars, layout.shape, strict=True):
            value = self.at[v.__chandle__()]
            if not self.block.analyzer.can_prove(value < n):
                conditions.append(value < n)
        return conjunction(conditions) if conditions else None

    # One iteration at a time

    def _scalar(self, stmt: Any, lane: Any) -> Any:
        """`stmt` for the iteration `lane` after the group's first."""
        if isinstance(stmt, X.BufferStore):
            held, kept = self._held, stmt.buffer.scope() == FRAGMENT
            self._held = held if kept else {}  # the thread that stores reads for itself
            value = self.expression(stmt.value, lane)
            self._held = held
            if kept:
                register = self._register(stmt.buffer, tuple(stmt.indices), lane)
                return X.BufferStore(self.block.registers(stmt.buffer), value, [register], stmt.span)
            indices = [self.expression(i, lane) for i in stmt.indices]
            return self._once(X.BufferStore(stmt.buffer, value, indices, stmt.span))
        if isinstance(stmt, X.IfThenElse):
            condition = self.block.simplify(self.expression(stmt.condition, lane))
            if constant(condition) == 1:
                return self._scalar(stmt.then_case, lane)
            orelse = self._scalar(stmt.else_case, lane) if stmt.else_case is not None else None
            return X.IfThenElse(condition, self._scalar(stmt.then_case, lane), orelse, stmt.span)
        if isinstance(stmt, X.Bind):
            self._refuse_repeated_atomic(stmt)
            return X.Bind(stmt.var, self.expression(stmt.value, lane), stmt.span)
        if isinstance(stmt, X.Evaluate):
            return self._once(X.Evaluate(self.expression(stmt.value, lane), stmt.span))
        if isinstance(stmt, X.While):
            return X.While(self.expression(stmt.condition, lane), self._scalar(stmt.body, lane), stmt.span)
        if isinstance(stmt, X.For):
            body = self._scalar(stmt.body, lane)
            bounds = [self.expression(e, lane) for e in (stmt.min, stmt.extent)]
            return X.For(stmt.loop_var, *bounds, _inner_kind(stmt), body, step=stmt.step, span=stmt.span)
        return remake(stmt, lambda s: self._scalar(s, lane))

    def _once(self, stmt: Any) -> Any:
        """A store to memory, also a guarded one, is done by the first of the threads that run the same
        iteration; one to registers by each of them, which keep their own copy.
        """
        stored = [s.buffer for s in walk(stmt) if isinstance(s, X.BufferStore)]
        in_registers = bool(stored) and not any(map(in_memory, stored))
        if self.layout.replicas == 1 or in_registers:
            return stmt
        condition = first_replica(self.layout, self.block)
        return stmt if condition is None else X.IfThenElse(condition, stmt, None, stmt.span)

    def _refuse_repeated_atomic(self, stmt: X.Bind) -> None:
        """The old value of an element cannot be had by several threads that run the same iteration."""
        if self.layout.replicas == 1:
            return
        if any(tile_ops.is_call(c, tile_ops.ATOMIC) for c in calls(stmt.value)):
            raise KernelError([ATOMIC_REPLICATED.at(place_of(stmt.span), value=str(stmt.var.name))])

    def expression(self, expr: Any, lane: Any) -> Any:
        """`expr` in terms of thread, group and lane."""
        if isinstance(expr, ir.Var):
            value = self.at.get(expr.__chandle__())
            if value is None:
                return expr
            return value if lane is None or not expr.same_as(self.inner) else value + lane
        if isinstance(expr, ir.TensorLoad) and expr.source.scope() == FRAGMENT:
            register = self._register(expr.source, tuple(expr.indices), lane)
            return X.BufferLoad(self.block.registers(expr.source), [register], expr.span)
        if isinstance(expr, ir.TensorLoad):
            held = self._held.get(key_of(expr)) if self._held else None
            if held is not None:
                return X.BufferLoad(held, [self.position], expr.span)
            indices = [self.block.simplify(self.expression(i, lane)) for i in expr.indices]
            return X.BufferLoad(expr.source, indices, expr.span)
        if is_choice(expr):
            condition, yes, no = (self.expression(a, lane) for a in expr.args)
            condition = self.block.simplify(condition)
            return yes if constant(condition) == 1 else X.if_then_else(condition, yes, no)
        return map_operands(expr, lambda e: self.expression(e, lane))

    # Registers of fragments

    def _register(self, buffer: ir.Var, indices: tuple[Any, ...], lane: Any) -> Any:
        """The register that holds `buffer[indices]` in this iteration."""
        fragment = self.block.fragment(buffer)
        if fragment.replicas == fragment.threads:
            return self.block.simplify(fragment.register([self.expression(i, lane) for i in indices]))
        position = self.position if lane is None else self.position + lane
        if self._is_own_element(indices, fragment):
            return self.block.simplify(position)
        table, valid, radices = self._table(buffer, indices, fragment)
        found = fit_digits(table, valid, [Radix(position, self.layout.registers), *radices])
        if found is None:
            raise NotEvaluable(str(buffer.name))
        return self.block.simplify(found)

    def _is_own_element(self, indices: tuple[Any, ...], fragment: Fragment) -> bool:
        """Whether iteration and element have one layout, so that they have one register number: the common
        case, answered without tables.
        """
        variables = tuple(self.loop.vars)
        same = len(indices) == len(variables) and all(
            i is v or (isinstance(i, ir.Var) and i.same_as(v))
            for i, v in zip(indices, variables, strict=True)
        )
        return same and fragment == self.layout

    def _table(
        self, buffer: ir.Var, indices: tuple[Any, ...], fragment: Fragment
    ) -> tuple[np.ndarray, np.ndarray, list[Radix]]:
        """[register of the loop, serial variables...] -> register of `buffer`, the same for all threads."""
        key = (buffer.__chandle__(), str(indices))
        if key in self._tables:
            return self._tables[key]
        serial = _serial_variables(indices, {**self.block.outer, **inner_loops(self.loop.body)}, self.loop)
        outer = {v.__chandle__(): n for v, n in serial}
        held = owned_registers(self.layout, self.loop.vars, outer, indices, fragment)
        if held is None:
            raise NotEvaluable(str(buffer.name))
        shape = (self.layout.registers, *(n for _, n in serial))
        _, position = np.nonzero(self.layout.table >= 0)
        steps = int(np.prod(shape[1:]))
        at = np.repeat(position, steps) * steps + np.tile(np.arange(steps), len(position))
        table, valid = np.zeros(shape, int), np.zeros(shape, bool)
        table.flat[at] = held[1]
        valid.flat[at] = True
        if not (table.flat[at] == held[1]).all():
            raise NotEvaluable(str(buffer.name))
        self._tables[key] = (table, valid, [Radix(v, n) for v, n in serial])
        return self._tables[key]

    def _neighbouring(self, buffer: ir.Var, indices: tuple[Any, ...]) -> bool:
        """Whether the lanes of every group are consecutive, aligned registers of `buffer`."""
        fragment = self.block.fragment(buffer)
        if fragment.replicas == fragment.threads:
            return False
        table, valid, radices = self._table(buffer, indices, fragment)
        if radices or not valid.all():
            return False
        groups = table.reshape(-1, self.lanes)
        return bool((np.diff(groups, axis=1) == 1).all() and (groups[:, 0] % self.lanes == 0).all())

    # Several iterations at once

    def _vector(self, stmt: Any) -> Any:
        if isinstance(stmt, X.SeqStmt):
            return seq([self._vector(s) for s in stmt.seq])
        uniform = isinstance(stmt, X.IfThenElse) and self._uniform(stmt.condition)
        if isinstance(stmt, X.IfThenElse) and uniform:
            condition = self.block.simplify(self.expression(stmt.condition, None))
            if constant(condition) == 1:
                return self._vector(stmt.then_case)
            orelse = self._vector(stmt.else_case) if stmt.else_case is not None else None
            return X.IfThenElse(condition, self._vector(stmt.then_case), orelse, stmt.span)
        if isinstance(stmt, X.BufferStore):
            return self._vector_store(stmt)
        if isinstance(stmt, X.Evaluate) and tile_ops.is_call(stmt.value, tile_ops.ATOMIC):
            return self._vector_atomic(stmt)
        return self._each_lane(lambda lane: self._scalar(stmt, lane), stmt.span)

    def _each_lane(self, body: Any, span: Any) -> Any:
        lane = X.Var("v", "int32")
        self.block.bind(lane, self.lanes)
        return unrolled(lane, self.lanes, body(lane), span)

    def _vector_store(self, store: X.BufferStore) -> Any:
        moved = self._move(store)
        if moved is not None:
            return moved
        before: list[Any] = []
        self._loaded = {}
        value = self._hoist(store.value, before, False)
        target, buffer = self._wide_target(store), store.buffer
        if target is None:
            finish = self._each_lane(lambda lane: self._store_lane(store, value, lane), store.span)
            return seq([*before, finish])
        result = local(f"{buffer.name}_vec", str(buffer.dtype), self.lanes)

        def lane_body(lane: Any) -> Any:
            return X.BufferStore(result, self.expression(value, lane), [lane], store.span)

        wide = X.BufferStore(buffer, X.BufferLoad(result, [ramp(0, self.lanes)]), target, store.span)
        return seq(
            [
                *before,
                X.AllocBuffer(result, span=store.span),
                self._each_lane(lane_body, store.span),
                self._once(wide),
            ]
        )

    def _vector_atomic(self, stmt: X.Evaluate) -> Any:
        """The updates of a group in one call, where they are neighbours in memory."""
        op = Atomic.read(stmt.value)
        target = self.first_indices(op.dst) if len(op.values) == 1 else None
        before: list[Any] = []
        self._loaded = {}
        values = tuple(self._hoist(v, before, False) for v in op.values)
        if target is None:
            hoisted = X.Evaluate(replace(op, values=values).call(), stmt.span)
            return seq([*before, self._each_lane(lambda lane: self._scalar(hoisted, lane), stmt.span)])
        result = local(f"{op.dst.source.name}_vec", str(op.dst.source.dtype), self.lanes)

        def lane_body(lane: Any) -> Any:
            return X.BufferStore(result, self.expression(values[0], lane), [lane], stmt.span)

        lanes = tuple(X.BufferLoad(result, [index(k)]) for k in range(self.lanes))
        wide = replace(op, dst=X.BufferLoad(op.dst.source, target), values=lanes)
        return seq(
            [
                *before,
                X.AllocBuffer(result, span=stmt.span),
                self._each_lane(lane_body, stmt.span),
                self._once(X.Evaluate(wide.call(), stmt.span)),
            ]
        )

    def _fused(self, body: Any) -> Any:
        """All statements in one loop over lanes, between the wide loads and the wide stores of all of
        them.
        """
        before: list[Any] = []
        after: list[Any] = []
        in_lane: list[Callable[[Any], Any]] = []
        self._loaded = {}
        for condition, stmt in _guarded_statements(body, None):
            uniform = condition is None or self._uniform(condition)
            if isinstance(stmt, X.Bind):
                value = self._hoist(stmt.value, before, False)
                if uses(stmt.value, {self.inner.__chandle__()} | self._in_lane) or _reads_registers(
                    stmt.value
                ):
                    self._in_lane.add(stmt.var.__chandle__())
                    in_lane.append(partial(self._bind_lane, stmt, value))
                else:  # once for the group, where wide loads can use it
                    before.append(self._bind_lane(stmt, value, None))
                continue
            value = self._hoist(stmt.value, before, False, condition) if uniform else stmt.value
            target = self._wide_target(stmt) if uniform else None
            if target is None:
                in_lane.append(partial(self._guarded_lane, condition, partial(self._store_lane, stmt, value)))
                continue
            result = local(f"{stmt.buffer.name}_vec", str(stmt.buffer.dtype), self.lanes)
            before.append(X.AllocBuffer(result, span=stmt.span))
            in_lane.append(
                partial(self._guarded_lane, condition, partial(self._set_lane, result, value, stmt.span))
            )
            wide = X.BufferStore(stmt.buffer, X.BufferLoad(result, [ramp(0, self.lanes)]), target, stmt.span)
            after.append(self._guarded_lane(condition, lambda _, wide=wide: self._once(wide), None))
        lanes = self._each_lane(lambda lane: seq([make(lane) for make in in_lane]), self.loop.span)
        return seq([*before, lanes, *after])

    def _uniform(self, condition: Any) -> bool:
        """Whether a condition has one value for all lanes of a group."""
        if uses(condition, self._in_lane):
            return False
        return self.widths.uniform(condition, self.inner, self.lanes)

    def _bind_lane(self, stmt: X.Bind, value: Any, lane: Any) -> Any:
        return X.Bind(stmt.var, self.expression(value, lane), stmt.span)

    def _set_lane(self, result: ir.Var, value: Any, span: Any, lane: Any) -> Any:
        return X.BufferStore(result, self.expression(value, lane), [lane], span)

    def _guarded_lane(self, condition: Any, make: Callable[[Any], Any], lane: Any) -> Any:
        if condition is None:
            return make(lane)
        condition = self.block.simplify(self.expression(condition, lane))
        return (
            make(lane)
            if constant(condition) == 1
            else X.IfThenElse(condition, make(lane), None, self.loop.span)
        )

    def _store_lane(self, store: X.BufferStore, value: Any, lane: Any) -> Any:
        return self._scalar(X.BufferStore(store.buffer, value, list(store.indices), store.span), lane)

    def _wide_target(self, store: X.BufferStore) -> list[Any] | None:
        """Indices of a wide store to memory; None if it must be done lane by lane."""
        access = self.access.get(store.__chandle__())
        if access is None or not in_memory(store.buffer):
            return None
        return self._wide_indices(access)

    def _wide_indices(self, access: LoopAccess) -> list[Any] | None:
        indices = self.first_indices(access.element)
        return None if indices is None else [*indices[:-1], ramp(indices[-1], self.lanes)]

    def _move(self, store: X.BufferStore) -> Any | None:
        """A store that only moves data, as one wide access on both sides; None if it is more than that."""
        load, condition = guarded_load(store.value)
        if load is None or str(load.source.dtype) != str(store.buffer.dtype):
            return None
        if condition is not None and not self._uniform(condition):
            return None
        target, source = self._wide_side(store, store.buffer), self._wide_side(load, load.source)
        if target is None or source is None:
            return None
        wide = X.BufferStore(target[0], X.BufferLoad(source[0], source[1]), target[1], store.span)
        if condition is None:
            return self._once(wide)
        condition = self.block.simplify(self.expression(condition, None))
        if constant(condition) == 1:
            return self._once(wide)
        zero = X.Broadcast(X.const(0, str(store.buffer.dtype)), self.lanes)
        zeros = X.BufferStore(target[0], zero, target[1], store.span)
        return self._once(X.IfThenElse(condition, wide, zeros, store.span))

    def _wide_side(self, element: Any, buffer: ir.Var) -> tuple[ir.Var, list[Any]] | None:
        """Buffer and index of one side of a move."""
        if buffer.scope() == FRAGMENT:
            indices = tuple(element.indices)
            if not self._neighbouring(buffer, indices):
                return None
            return self.block.registers(buffer), [ramp(self._register(buffer, indices, None), self.lanes)]
        access = self.access.get(element.__chandle__())
        if access is None or not in_memory(buffer):
            return None
        indices = self._wide_indices(access)
        return None if indices is None else (buffer, indices)

    def _hoist(self, expr: Any, before: list[Any], conditional: bool, guard: Any = None) -> Any:
        """`expr` with wide loads from memory done before, under `guard`, into arrays indexed by the lane.

        A load under a condition of the author's stays where it is: it may be illegal without the condition.
        """
        load, condition = guarded_load(expr)
        if load is not None and not conditional:
            if guard is not None:
                condition = guard if condition is None else X.And(guard, condition)
            array = self._wide_load(load, condition, before)
            if array is not None:
                return X.BufferLoad(array, [self.inner - self._first()])
            piece = self._piece(load, condition, before)
            if piece is not None:
                return piece
        if isinstance(expr, ir.TensorLoad) or not isinstance(expr, ir.Expr):
            return expr
        if is_choice(expr):
            first, yes, no = expr.args
            first = self._hoist(first, before, conditional, guard)
            return X.if_then_else(first, self._hoist(yes, before, True), self._hoist(no, before, True))
        if isinstance(expr, X.And | X.Or):
            return type(expr)(
                self._hoist(expr.a, before, conditional, guard), self._hoist(expr.b, before, True)
            )
        return map_operands(expr, lambda e: self._hoist(e, before, conditional, guard))

    def _first(self) -> Any:
        """The group's first value of the innermost variable."""
        return self.at[self.inner.__chandle__()]

    def _wide_load(self, load: Any, condition: Any, before: list[Any]) -> ir.Var | None:
        access = self.access.get(load.__chandle__())
        if access is None or not in_memory(load.source):
            return None
        if condition is not None and not self._uniform(condition):
            return None
        indices = self._wide_indices(access)
        if indices is None:
            return None
        buffer = load.source
        key = (buffer.__chandle__(), str(indices), str(condition))
        if key in self._loaded:
            return self._loaded[key]
        array = local(f"{buffer.name}_vec", str(buffer.dtype), self.lanes)
        self._loaded[key] = array
        whole = [ramp(0, self.lanes)]
        fill = X.BufferStore(array, X.BufferLoad(buffer, indices), whole, self.loop.span)
        if condition is not None:
            condition = self.block.simplify(self.expression(condition, None))
            zero = X.Broadcast(X.const(0, str(buffer.dtype)), self.lanes)
            zeros = X.BufferStore(array, zero, whole, self.loop.span)
            if constant(condition) != 1:
                fill = X.IfThenElse(condition, fill, zeros, self.loop.span)
        before += [X.AllocBuffer(array, span=self.loop.span), fill]
        return array

    def _piece(self, load: Any, condition: Any, before: list[Any]) -> Any | None:
        """A load whose lanes read fewer neighbours than there are lanes: these are loaded together."""
        access = self.access.get(load.__chandle__())
        if access is None or not in_memory(load.source) or condition is not None:
            return None
        if any(uses(i, self._in_lane) for i in access.indices):
            return None
        found = self.widths.window(access, self.inner, self.lanes)
        if found is None:
            return None
        width, offset = found
        *outer, last = access.indices
        start = substitute(last, {self.inner: self._first()}) - offset
        indices = [self.block.simplify(self.expression(i, None)) for i in (*outer, start)]
        key = (load.source.__chandle__(), str(indices), str(width))
        if key not in self._loaded:
            array = local(f"{load.source.name}_vec", str(load.source.dtype), width)
            self._loaded[key] = array
            wide = X.BufferLoad(load.source, [*indices[:-1], ramp(indices[-1], width)])
            fill = X.BufferStore(array, wide, [ramp(0, width)], self.loop.span)
            before += [X.AllocBuffer(array, span=self.loop.span), fill]
        lane = self.inner - self._first()
        ahead = substitute(last, {self.inner: lane}) - substitute(last, {self.inner: index(0)})
        return X.BufferLoad(self._loaded[key], [ahead + offset])


def first_replica(layout: Fragment, block: Block) -> Any | None:
    """The condition that this thread is the first of those that hold the same elements; None if it is
    alone.
    """
    if layout.replicas == 1:
        return None
    if len(layout.replicate) == 1:
        replica = layout.replicate[0]
        if replica.stride * replica.extent == layout.threads:
            return block.simplify(block.thread < replica.stride)
    conditions = []
    for r in layout.replicate:
        if r.extent > 1:
            digit = block.thread // r.stride
            digit = digit if r.stride * r.extent == layout.threads else digit % r.extent
            conditions.append(block.simplify(X.EQ(digit, index(0))))
    return conjunction(conditions)


def _reads_registers(expr: Any) -> bool:
    """Whether `expr` reads what the loop may change between two of its statements."""
    return any(X.is_buffer_var(v) and not in_memory(v) for v in variables(expr))


def _binds(body: Any) -> bool:
    return any(isinstance(s, X.Bind) for s in walk(body))


def _guarded_statements(stmt: Any, condition: Any) -> Iterator[tuple[Any, Any]]:
    """(condition or None, statement) of a body without other control flow than `if` without `else`."""
    if isinstance(stmt, X.SeqStmt):
        for part in stmt.seq:
            yield from _guarded_statements(part, condition)
    elif isinstance(stmt, X.IfThenElse):
        joined = stmt.condition if condition is None else X.And(condition, stmt.condition)
        yield from _guarded_statements(stmt.then_case, joined)
    else:
        yield condition, stmt


def _fusable(loop: ParallelLoop) -> bool:
    """Whether all loads from memory may come first and all stores to it last: no buffer is both read and
    written.
    """
    for stmt in walk(loop.body):
        if isinstance(stmt, X.IfThenElse):
            if stmt.else_case is not None or _binds(stmt):
                return False
        elif isinstance(stmt, X.BufferStore):
            if stmt.buffer.scope() in ("local", "local.var"):
                return False
        elif not isinstance(stmt, X.SeqStmt | X.Bind):
            return False
    read = {a.buffer.__chandle__() for a in loop.accesses if a.mode == "read" and in_memory(a.buffer)}
    return not any(a.mode == "write" and a.buffer.__chandle__() in read for a in loop.accesses)


def _independent(body: Any) -> bool:
    """Whether groups of iterations may be interleaved statement by statement: nothing private to one is
    kept.
    """
    for stmt in walk(body):
        if isinstance(stmt, X.Bind | X.AllocBuffer | X.While | X.Break | X.Continue):
            return False
        if isinstance(stmt, X.BufferStore) and stmt.buffer.scope() in ("local", "local.var"):
            return False
    return True


def _serial_variables(
    indices: tuple[Any, ...], ends: Mapping[int, int], loop: ParallelLoop
) -> list[tuple[ir.Var, int]]:
    own = {v.__chandle__() for v in loop.vars}
    found: dict[int, tuple[ir.Var, int]] = {}
    for i in indices:
        for v in variables(i):
            handle = v.__chandle__()
            if handle in ends and handle not in own:
                found[handle] = (v, ends[handle])
    return list(found.values())


def _inner_kind(stmt: X.For) -> Any:
    return X.ForKind.UNROLLED if int(stmt.kind) == X.ForKind.UNROLLED else X.ForKind.SERIAL
