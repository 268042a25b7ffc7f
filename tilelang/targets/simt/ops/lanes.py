"""Neighbouring iterations of a Parallel loop done together: the lanes of wide accesses to memory.

Wide loads go into small arrays, arithmetic runs lane by lane, a wide store writes what came out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from tvm import ir
from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.ir.evaluate import is_choice
from tilelang.ir.guarded_load import guarded_load
from tilelang.ir.tile_ops import seq
from tilelang.layout.fragment import Fragment
from tilelang.ops.atomic import Atomic
from tilelang.passes.loop_layouts import contiguous_registers
from tilelang.passes.parallel_loop import LoopAccess, ParallelLoop, in_memory
from tilelang.passes.walk import FRAGMENT, constant, index, map_operands, substitute, uses, variables, walk
from tilelang.targets.simt.block import Block, local, ramp, unrolled
from tilelang.targets.simt.ops.iterations import Iterations


@dataclass(frozen=True)
class Piece:
    """One of the wide accesses that a group comes to: of `width` lanes from `lane` on, at these indices."""

    lane: int
    width: int
    indices: list[Any]


class Lanes(Iterations):
    """A loop whose groups of iterations are neighbours in memory."""

    def __init__(self, loop: ParallelLoop, block: Block, layout: Fragment, lanes: int) -> None:
        super().__init__(loop, block, layout, lanes)
        self._access = {a.element.__chandle__(): a for a in loop.accesses}
        self._in_lane: set[int] = set()  # scalars that each lane binds for itself
        # Wide loads of the current statement, so that none is done twice.
        self._loaded: dict[Any, ir.Var] = {}

    def together(self) -> Any:
        """The loop's body for all lanes of a group."""
        body = self.loop.body
        return self._fused(body) if _binds(body) else self._vector(body)

    def first_indices(self, element: Any, several: bool = False) -> list[Any] | None:
        """Indices of the group's first element of an access to memory; None where the lanes are no
        neighbours. several: they may take more than one access.
        """
        access = self._access.get(element.__chandle__())
        if access is None or not in_memory(access.buffer):
            return None
        widths = self.block.widths
        covered = widths.access(self.loop, access) >= self.lanes
        if not covered and not (several and widths.several(self.loop, access, self.lanes)):
            return None
        return self._from(access, 0)

    def _from(self, access: LoopAccess, lane: int) -> list[Any] | None:
        """Indices of an access by `lane` of the group; None where something that lanes bind is in them."""
        if any(uses(i, self._in_lane) for i in access.indices):
            return None
        return [self.block.simplify(self.expression(i, lane or None)) for i in access.indices]

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
        return self._each_lane(lambda lane: self.scalar(stmt, lane), stmt.span)

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

        return seq(
            [
                *before,
                X.AllocBuffer(result, span=store.span),
                self._each_lane(lane_body, store.span),
                self.once(_wide_store(store, result, target)),
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
            return seq([*before, self._each_lane(lambda lane: self.scalar(hoisted, lane), stmt.span)])
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
                self.once(X.Evaluate(wide.call(), stmt.span)),
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
            wide = _wide_store(stmt, result, target)
            after.append(self._guarded_lane(condition, lambda _, wide=wide: self.once(wide), None))
        lanes = self._each_lane(lambda lane: seq([make(lane) for make in in_lane]), self.loop.span)
        return seq([*before, lanes, *after])

    def _uniform(self, condition: Any) -> bool:
        """Whether a condition has one value for all lanes of a group."""
        if uses(condition, self._in_lane):
            return False
        return self.block.widths.uniform(condition, self.inner, self.lanes)

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
        return self.scalar(X.BufferStore(store.buffer, value, list(store.indices), store.span), lane)

    def _wide_target(self, store: X.BufferStore) -> list[Piece] | None:
        """The pieces of a wide store to memory; None if it must be done lane by lane."""
        access = self._access.get(store.__chandle__())
        if access is None or not in_memory(store.buffer):
            return None
        return self._pieces(access)

    def _pieces(self, access: LoopAccess) -> list[Piece] | None:
        """What the lanes access together: one piece, or one for each chunk of a tile whose chunks lie apart.
        None where they must be done one by one.
        """
        indices = self.first_indices(access.element, several=True)
        if indices is not None:
            return [Piece(0, self.lanes, [*indices[:-1], ramp(indices[-1], self.lanes)])]
        width = self.block.widths.chunks(self.loop, access, self.lanes)
        found = []
        for lane in range(0, self.lanes if width else 0, width or 1):
            indices = self._from(access, lane)
            if indices is None:
                return None
            found.append(Piece(lane, width, [*indices[:-1], ramp(indices[-1], width)]))
        return found or None

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
            return self.once(wide)
        condition = self.block.simplify(self.expression(condition, None))
        if constant(condition) == 1:
            return self.once(wide)
        zero = X.Broadcast(X.const(0, str(store.buffer.dtype)), self.lanes)
        zeros = X.BufferStore(target[0], zero, target[1], store.span)
        return self.once(X.IfThenElse(condition, wide, zeros, store.span))

    def _wide_side(self, element: Any, buffer: ir.Var) -> tuple[ir.Var, list[Any]] | None:
        """Buffer and index of one side of a move."""
        if buffer.scope() == FRAGMENT:
            indices = tuple(element.indices)
            if not self._neighbouring(buffer, indices):
                return None
            return self.block.registers(buffer), [ramp(self.register(buffer, indices, None), self.lanes)]
        access = self._access.get(element.__chandle__())
        if access is None or not in_memory(buffer):
            return None
        pieces = self._pieces(access)
        return None if pieces is None or len(pieces) > 1 else (buffer, pieces[0].indices)

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

    def _hoist(self, expr: Any, before: list[Any], conditional: bool, guard: Any = None) -> Any:
        """`expr` with wide loads from memory done before, under `guard`, into arrays indexed by the lane.

        A load under a condition of the author's takes the condition along, if it is one for all lanes, and
        stays where it is otherwise: it may be illegal without it, unless it is surely inside of a tile.
        """
        load, condition = guarded_load(expr)
        if load is not None and (not conditional or (condition is None and self._inside_tile(load))):
            if guard is not None and not self._inside_tile(load):
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
            condition, yes, no = expr.args
            first = self._hoist(condition, before, conditional, guard)
            if not conditional and self._uniform(condition):  # all lanes read, or none does
                holds = condition if guard is None else X.And(guard, condition)
                yes = self._hoist(yes, before, False, holds)
            else:
                yes = self._hoist(yes, before, True)
            return X.if_then_else(first, yes, self._hoist(no, before, True))
        if isinstance(expr, X.And | X.Or):
            return type(expr)(
                self._hoist(expr.a, before, conditional, guard), self._hoist(expr.b, before, True)
            )
        return map_operands(expr, lambda e: self._hoist(e, before, conditional, guard))

    def _inside_tile(self, load: Any) -> bool:
        """Whether a load reads shared memory, and whatever lane and conditions, an element that is there."""
        if not load.source.scope().startswith("shared"):
            return False
        lane = X.Var("lane", "int32")
        self.block.bind(lane, self.lanes)
        prove = self.block.analyzer.can_prove
        return all(
            prove(here >= 0) and prove(here < n)
            for here, n in zip(
                (self.expression(i, lane) for i in load.indices), load.source.shape, strict=True
            )
        )

    def _first(self) -> Any:
        """The group's first value of the innermost variable."""
        return self.at[self.inner.__chandle__()]

    def _wide_load(self, load: Any, condition: Any, before: list[Any]) -> ir.Var | None:
        access = self._access.get(load.__chandle__())
        if access is None or not in_memory(load.source):
            return None
        if condition is not None and not self._uniform(condition):
            return None
        pieces = self._pieces(access)
        if pieces is None:
            return None
        buffer = load.source
        key = (buffer.__chandle__(), str(pieces[0].indices), str(condition))
        if key in self._loaded:
            return self._loaded[key]
        array = local(f"{buffer.name}_vec", str(buffer.dtype), self.lanes)
        self._loaded[key] = array
        fill = seq(
            [
                X.BufferStore(array, X.BufferLoad(buffer, p.indices), [ramp(p.lane, p.width)], self.loop.span)
                for p in pieces
            ]
        )
        if condition is not None:
            condition = self.block.simplify(self.expression(condition, None))
            zero = X.Broadcast(X.const(0, str(buffer.dtype)), self.lanes)
            zeros = X.BufferStore(array, zero, [ramp(0, self.lanes)], self.loop.span)
            if constant(condition) != 1:
                fill = X.IfThenElse(condition, fill, zeros, self.loop.span)
        before += [X.AllocBuffer(array, span=self.loop.span), fill]
        return array

    def _piece(self, load: Any, condition: Any, before: list[Any]) -> Any | None:
        """A load whose lanes read fewer neighbours than there are lanes: these are loaded together."""
        access = self._access.get(load.__chandle__())
        if access is None or not in_memory(load.source) or condition is not None:
            return None
        if any(uses(i, self._in_lane) for i in access.indices):
            return None
        found = self.block.widths.window(access, self.inner, self.lanes)
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


def _wide_store(store: X.BufferStore, lanes: ir.Var, pieces: list[Piece]) -> Any:
    """The array `lanes` written to where `store` stores."""
    return seq(
        [
            X.BufferStore(store.buffer, X.BufferLoad(lanes, [ramp(p.lane, p.width)]), p.indices, store.span)
            for p in pieces
        ]
    )


def choose_lanes(loop: ParallelLoop, block: Block, layout: Fragment) -> int:
    """How many iterations at once: neighbours in registers and in memory, which nothing keeps apart."""
    neighbours = contiguous_registers(layout)
    lanes = 1
    while neighbours % (lanes * 2) == 0:
        lanes *= 2
    widest = max((block.widths.access(loop, a) for a in loop.accesses if in_memory(a.buffer)), default=1)
    lanes = min(lanes, widest)
    if not (_independent(loop.body) or _fusable(loop)):
        return 1
    while lanes > 1 and not _whole_groups(layout, lanes):
        lanes //= 2
    return lanes


def _whole_groups(layout: Fragment, lanes: int) -> bool:
    """Whether a group lies inside the loop or outside as a whole."""
    if layout.exact:
        return True
    if layout.by_dimension() is None:
        return int(np.prod(layout.shape)) % lanes == 0
    return layout.shape[-1] % lanes == 0


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
