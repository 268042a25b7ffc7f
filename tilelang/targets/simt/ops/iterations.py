"""The iterations of a Parallel loop that one thread runs, lowered one at a time.

The loop's Fragment gives them, `(i, j) = layout.indices(thread, r)`; accesses to fragments become registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.rules.scope import ATOMIC_REPLICATED
from tilelang.ir import tile_ops
from tilelang.ir.build import UNROLL
from tilelang.ir.evaluate import NotEvaluable, is_choice
from tilelang.ir.spans import place_of
from tilelang.layout.fragment import Fragment
from tilelang.passes.guard_bounds import conjunction
from tilelang.passes.layout_sites import inner_loops
from tilelang.passes.loop_layouts import owned_registers
from tilelang.passes.parallel_loop import ParallelLoop, in_memory
from tilelang.passes.walk import FRAGMENT, calls, constant, index, map_operands, remake, variables, walk
from tilelang.targets.simt.block import Block, unrolled
from tilelang.targets.simt.ops.held_reads import Key, key_of
from tilelang.targets.simt.ops.registers import Radix, fit_digits

_UNROLLED = 32  # groups of a loop over memory that are unrolled completely
_STEPS = 8  # else so many at a time


class Iterations:
    """One loop being lowered: `lanes` iterations at once, `count` groups of them in each thread."""

    def __init__(self, loop: ParallelLoop, block: Block, layout: Fragment, lanes: int) -> None:
        self.loop, self.block, self.layout, self.lanes = loop, block, layout, lanes
        self.inner = loop.vars[-1]
        self._held: dict[Key, ir.Var] = {}  # registers with what was read first
        self.group = X.Var("r", "int32")
        self.count = self.layout.registers // self.lanes
        block.bind(self.group, self.count)
        position: Any = self.group if self.lanes == 1 else self.group * self.lanes
        self.position = index(0) if self.count == 1 else position
        self.at: dict[int, Any] = {
            v.__chandle__(): block.simplify(i)
            for v, i in zip(loop.vars, self.layout.indices(block.thread, self.position), strict=True)
        }
        self._tables: dict[tuple[int, str], tuple[np.ndarray, np.ndarray, list[Radix]]] = {}

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

    # One iteration

    def scalar(self, stmt: Any, lane: Any) -> Any:
        """`stmt` for the iteration `lane` after the group's first."""
        if isinstance(stmt, X.BufferStore):
            held, kept = self._held, stmt.buffer.scope() == FRAGMENT
            self._held = held if kept else {}  # the thread that stores reads for itself
            value = self.expression(stmt.value, lane)
            self._held = held
            if kept:
                register = self.register(stmt.buffer, tuple(stmt.indices), lane)
                return X.BufferStore(self.block.registers(stmt.buffer), value, [register], stmt.span)
            indices = [self.expression(i, lane) for i in stmt.indices]
            return self.once(X.BufferStore(stmt.buffer, value, indices, stmt.span))
        if isinstance(stmt, X.IfThenElse):
            condition = self.block.simplify(self.expression(stmt.condition, lane))
            if constant(condition) == 1:
                return self.scalar(stmt.then_case, lane)
            orelse = self.scalar(stmt.else_case, lane) if stmt.else_case is not None else None
            return X.IfThenElse(condition, self.scalar(stmt.then_case, lane), orelse, stmt.span)
        if isinstance(stmt, X.Bind):
            self._refuse_repeated_atomic(stmt)
            return X.Bind(stmt.var, self.expression(stmt.value, lane), stmt.span)
        if isinstance(stmt, X.Evaluate):
            return self.once(X.Evaluate(self.expression(stmt.value, lane), stmt.span))
        if isinstance(stmt, X.While):
            return X.While(self.expression(stmt.condition, lane), self.scalar(stmt.body, lane), stmt.span)
        if isinstance(stmt, X.For):
            body = self.scalar(stmt.body, lane)
            bounds = [self.expression(e, lane) for e in (stmt.min, stmt.extent)]
            return X.For(stmt.loop_var, *bounds, _inner_kind(stmt), body, step=stmt.step, span=stmt.span)
        return remake(stmt, lambda s: self.scalar(s, lane))

    def once(self, stmt: Any) -> Any:
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
            register = self.register(expr.source, tuple(expr.indices), lane)
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

    def register(self, buffer: ir.Var, indices: tuple[Any, ...], lane: Any) -> Any:
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


def _serial_variables(
    indices: tuple[Any, ...], ends: Mapping[int, int], loop: ParallelLoop
) -> list[tuple[ir.Var, int]]:
    """The variables of serial loops in `indices`, each with its end."""
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
