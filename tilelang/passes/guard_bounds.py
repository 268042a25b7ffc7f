"""Bounds of global memory: what may lie outside a tensor reads as zero and is not written.

In:  a function whose accesses to global buffers are loads and stores with one index per dimension.
Out: the same; a load that is not provably inside became `if_then_else(inside, load, 0)`, a store `if inside:
     store`. The condition names only the dimensions in question.
Not: shared memory and registers, whose bounds are the author's contract; tile operations (expand them first).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import tvm_ffi
from tvm import ir, sym
from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.ir.evaluate import is_choice
from tilelang.ir.safe_values import safe_values
from tilelang.ir.simplify import simplify
from tilelang.ir.tile_ops import seq
from tilelang.ir.tile_program import UNGUARDED
from tilelang.ops.atomic import Atomic
from tilelang.passes.walk import constant, index, loop_kind, map_operands, remake

_SAYING = (tile_ops.PRINT, tile_ops.PRINT_ONCE, tile_ops.CHECK)
_POSITIVE = sym.ConstIntBound(1, sym.ConstIntBound.POS_INF)


def guard_bounds(func: X.PrimFunc) -> X.PrimFunc:
    """Apply the pass."""
    analyzer = sym.Analyzer()
    for size in _sizes(func):
        analyzer.update(size, _POSITIVE)
    return func.with_body(_Guards(analyzer, safe_values(func), not is_unguarded(func)).statement(func.body))


def is_unguarded(func: X.PrimFunc) -> bool:
    """Whether the author vouches for all accesses to global tensors."""
    return bool(func.attrs) and UNGUARDED in func.attrs and bool(func.attrs[UNGUARDED])


def missing_bounds(buffer: ir.Var, indices: Sequence[Any], analyzer: sym.Analyzer) -> list[Any]:
    """Conditions on `indices`, innermost dimension last, that are not proven and make the access lie
    inside.
    """
    found = []
    for i, n in zip(indices, buffer.shape, strict=True):
        at, extent = constant(i), constant(n)
        if at is not None and extent is not None and 0 <= at < extent:
            continue
        i, n = _same_width(index(i), index(n))
        zero = X.const(0, str(i.ty))
        if not analyzer.can_prove(X.GE(i, zero)):
            found.append(X.GE(i, zero))
        if not analyzer.can_prove(X.LT(i, n)):
            found.append(X.LT(simplify(analyzer, i), n))
    return found


def _limit(loop: X.For, analyzer: sym.Analyzer) -> Any | None:
    """What a loop to `ceildiv(n, step)` or `n // step` says of `k * step`, which the range of k does not tell
    the analyzer: k * step <= n - step, its constants on the right. Blocks that take every p-th row count so.
    """
    extent = loop.extent
    if constant(loop.min) != 0 or not isinstance(extent, X.FloorDiv):
        return None
    step = constant(extent.b)
    if step is None or step <= 0 or constant(extent) is not None:
        return None
    left, right, number = [], [], 0
    for term, sign in _terms(analyzer.canonical_simplify(loop.loop_var * step - extent.a + step)):
        value = constant(term)
        if value is not None:
            number += sign * value
        else:
            (left if sign > 0 else right).append(term)
    if not left:
        return None
    most = sum(right[1:], right[0]) - number if right else index(-number)
    return X.LE(sum(left[1:], left[0]), most)  # in this form the analyzer uses it


def _terms(sum_: Any, sign: int = 1) -> Iterator[tuple[Any, int]]:
    """The terms of sums and differences, each with its sign."""
    if isinstance(sum_, X.Add | X.Sub):
        yield from _terms(sum_.a, sign)
        yield from _terms(sum_.b, sign if isinstance(sum_, X.Add) else -sign)
    else:
        yield sum_, sign


def _same_width(a: Any, b: Any) -> tuple[Any, Any]:
    """Both as 64-bit integers if either is: an index may be wider than the size it is compared with."""
    if str(a.ty) == str(b.ty):
        return a, b
    return tuple(x if str(x.ty) == "int64" else X.Cast("int64", x) for x in (a, b))  # type: ignore[return-value]


def _sizes(func: X.PrimFunc) -> Iterator[ir.Var]:
    """Sizes that stand alone as an extent of a parameter, so are at least 1."""
    for param in func.params:
        if X.is_buffer_var(param):
            yield from (n for n in param.shape if isinstance(n, ir.Var))


class _Guards:
    """Walks the function with what is known at each place."""

    def __init__(self, analyzer: sym.Analyzer, safe: Mapping[str, float], guards: bool) -> None:
        self._analyzer = analyzer
        self._guards = guards
        self._parallel = 0  # Parallel loops around the statement
        self._safe = safe  # what reads outside of a tensor give, by its name; 0 for the others

    def statement(self, stmt: Any) -> Any:
        if isinstance(stmt, X.AttrStmt) and stmt.attr_key == "thread_extent":
            self._analyzer.bind(stmt.node.var, ir.Range.from_min_extent(index(0), stmt.value), True)
            return remake(stmt, self.statement)
        if isinstance(stmt, X.For):
            step = constant(stmt.step) if stmt.step is not None else 1
            if loop_kind(stmt) == "Parallel":
                return self._parallel_loop(stmt)
            if step is None or step <= 0:
                return remake(stmt, self.statement)
            self._analyzer.bind(stmt.loop_var, ir.Range.from_min_extent(stmt.min, stmt.extent), True)
            with ExitStack() as inside:
                if (limit := _limit(stmt, self._analyzer)) is not None:
                    self._assume(inside, limit)
                return remake(stmt, self.statement)
        if isinstance(stmt, X.IfThenElse):
            return self._if(stmt)
        if isinstance(stmt, X.BufferStore):
            return self._store(stmt)
        if isinstance(stmt, X.SeqStmt):
            return self._sequence(stmt)
        if self._parallel and isinstance(stmt, X.Evaluate) and tile_ops.is_call(stmt.value, tile_ops.ASSUME):
            return seq([])
        if isinstance(stmt, X.Evaluate) and any(tile_ops.is_call(stmt.value, n) for n in _SAYING):
            return X.Evaluate(map_operands(stmt.value, self._guarded), stmt.span)
        if isinstance(stmt, X.Evaluate) and tile_ops.is_call(stmt.value, tile_ops.ATOMIC):
            call, missing = self._atomic(stmt.value)
            new = X.Evaluate(call, stmt.span)
            return X.IfThenElse(conjunction(missing), new, None, stmt.span) if missing else new
        if isinstance(stmt, X.Bind) and tile_ops.is_call(stmt.value, tile_ops.ATOMIC):
            call, missing = self._atomic(stmt.value)
            if missing:
                call = X.if_then_else(conjunction(missing), call, X.const(0, str(stmt.var.ty.dtype)))
            return X.Bind(stmt.var, call, stmt.span)
        if isinstance(stmt, X.Bind):
            value = self._guarded(stmt.value)
            return stmt if value.same_as(stmt.value) else X.Bind(stmt.var, value, stmt.span)
        if isinstance(stmt, X.While):
            condition = self._guarded(stmt.condition)
            return X.While(condition, self.statement(stmt.body), stmt.span)
        return remake(stmt, self.statement)

    def _parallel_loop(self, stmt: X.For) -> Any:
        self._analyzer.bind(stmt.loop_var, ir.Range.from_min_extent(stmt.min, stmt.extent), True)
        self._parallel += 1
        made = remake(stmt, self.statement)
        self._parallel -= 1
        return made

    def _sequence(self, stmt: X.SeqStmt) -> Any:
        """Statements in order; what the author assumes holds for those after it."""
        with ExitStack() as inside:
            parts = []
            for part in stmt.seq:
                if isinstance(part, X.Evaluate) and tile_ops.is_call(part.value, tile_ops.ASSUME):
                    self._assume(inside, part.value.args[0])
                    if self._parallel:  # later passes ask only about what holds for the whole block
                        continue
                parts.append(self.statement(part))
            return seq(parts)

    def _if(self, stmt: X.IfThenElse) -> Any:
        condition = self._guarded(stmt.condition)
        with ExitStack() as inside:
            self._assume(inside, stmt.condition)
            then = self.statement(stmt.then_case)
        orelse = stmt.else_case
        if orelse is not None:
            with ExitStack() as inside:
                self._assume(inside, X.Not(stmt.condition))
                orelse = self.statement(orelse)
        return X.IfThenElse(condition, then, orelse, stmt.span)

    def _assume(self, inside: ExitStack, condition: Any) -> None:
        """Facts about memory do not last, so only conditions over scalars are assumed."""
        if not _reads_memory(condition):
            inside.enter_context(self._analyzer.constraint_scope(condition))

    def _store(self, stmt: X.BufferStore) -> Any:
        indices = [self._guarded(i) for i in stmt.indices]
        missing = self._missing(stmt.buffer, indices) if stmt.buffer.scope() == "global" else []
        with ExitStack() as inside:  # what the store itself needs, its operands often need too
            for condition in missing:
                self._assume(inside, condition)
            value = self._guarded(stmt.value)
        store = X.BufferStore(stmt.buffer, value, indices, stmt.span)
        return X.IfThenElse(conjunction(missing), store, None, stmt.span) if missing else store

    def _atomic(self, call: Any) -> tuple[Any, list[Any]]:
        """The update with guarded operands, and the conditions under which it stays inside the tensor."""
        op = Atomic.read(call)
        indices = [self._guarded(i) for i in op.dst.indices]
        dst = X.BufferLoad(op.dst.source, indices)
        missing: list[Any] = []
        if dst.source.scope() == "global":
            missing = self._missing(dst.source, indices)
            if len(op.values) > 1:
                last = [*indices[:-1], indices[-1] + (len(op.values) - 1)]
                missing += self._missing(dst.source, last)
        with ExitStack() as inside:
            for condition in missing:
                self._assume(inside, condition)
            values = tuple(self._guarded(v) for v in op.values)
        return replace(op, dst=dst, values=values).call(), missing

    def _missing(self, buffer: ir.Var, indices: Sequence[Any]) -> list[Any]:
        return missing_bounds(buffer, indices, self._analyzer) if self._guards else []

    def _guarded(self, expr: Any) -> Any:
        """The expression with guarded loads. Conditions of if_then_else hold in their branches."""
        if not _reads_memory(expr):
            return expr
        if isinstance(expr, ir.TensorLoad):
            return self._load(expr)
        if is_choice(expr):
            return self._choice(expr)
        return map_operands(expr, self._guarded)

    def _load(self, load: Any) -> Any:
        indices = [self._guarded(i) for i in load.indices]
        load = X.BufferLoad(load.source, indices, load.span)
        if load.source.scope() != "global":
            return load
        missing = self._missing(load.source, indices)
        if not missing:
            return load
        outside = X.const(self._safe.get(str(load.source.name), 0), str(load.source.dtype))
        return X.if_then_else(conjunction(missing), load, outside)

    def _choice(self, expr: ir.Call) -> Any:
        condition, yes, no = expr.args
        guarded = self._guarded(condition)
        with ExitStack() as inside:
            self._assume(inside, condition)
            yes = self._guarded(yes)
        with ExitStack() as inside:
            self._assume(inside, X.Not(condition))
            no = self._guarded(no)
        return X.if_then_else(guarded, yes, no)


def conjunction(conditions: Sequence[Any]) -> Any:
    """All of them, joined by `and`."""
    joined = conditions[0]
    for c in conditions[1:]:
        joined = X.And(joined, c)
    return joined


def _reads_memory(expr: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(expr, (ir.TensorLoad, found.append))
    return bool(found)
