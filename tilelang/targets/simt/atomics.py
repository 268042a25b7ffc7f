"""Atomic updates -> the target's helper functions, by kind, dtype, memory order and number of lanes.

In:  a flat thread-level function with `tl.atomic` calls.
Out: the same with calls of `tl.<target>.atomic_...` in their place. Neighbouring elements are updated by one
     wide instruction where the address is surely aligned, else one after the other.
Not: deciding whether an update may leave a tensor (see `guard_bounds`).
"""

from __future__ import annotations

from typing import Any

from tvm import ir, sym
from tvm import tirx as X

from tilelang.arch.atomics import atomic_add_lanes
from tilelang.arch.target import Target
from tilelang.ir import tile_ops
from tilelang.ir.tile_ops import seq
from tilelang.ops.atomic import RELAXED, Atomic
from tilelang.passes.walk import constant, index, map_operands, remake
from tilelang.targets.emit.c_types import SHORT, atomic_name


def helper_name(kind: str, dtype: str, order: str = RELAXED, lanes: int = 1, scope: str = "global") -> str:
    """`atomic_add_f32`, `atomic_add_f32_release`, `atomic_add_f16x2`; in Metal `atomic_add_f32_shared`."""
    many = f"x{lanes}" if lanes > 1 else ""
    name = atomic_name(kind, f"{SHORT[dtype]}{many}", "acquire" if order == "consume" else order)
    return f"{name}_shared" if scope == "shared" else name


def lower_atomics(func: X.PrimFunc, target: Target) -> X.PrimFunc:
    """Apply the pass."""
    return func.with_body(_Lowering(target).statement(func.body))


class _Lowering:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._analyzer = sym.Analyzer()

    def statement(self, stmt: Any) -> Any:
        if isinstance(stmt, X.AttrStmt) and stmt.attr_key == "thread_extent":
            self._analyzer.bind(stmt.node.var, ir.Range.from_min_extent(index(0), stmt.value), True)
        if isinstance(stmt, X.Evaluate) and tile_ops.is_call(stmt.value, tile_ops.ATOMIC):
            return self._update(Atomic.read(stmt.value), stmt.span)
        if isinstance(stmt, X.Bind):
            value = self._expression(stmt.value)
            return stmt if value.same_as(stmt.value) else X.Bind(stmt.var, value, stmt.span)
        return remake(stmt, self.statement)

    def _expression(self, expr: Any) -> Any:
        if tile_ops.is_call(expr, tile_ops.ATOMIC):
            return self._call(Atomic.read(expr), 0, 1)
        return map_operands(expr, self._expression)

    def _update(self, op: Atomic, span: Any) -> Any:
        """One statement for each group of lanes."""
        count = max(1, len(op.values))
        lanes = self._lanes(op, count)
        calls = [self._call(op, first, lanes) for first in range(0, count, lanes)]
        return seq([X.Evaluate(call, span) for call in calls])

    def _lanes(self, op: Atomic, count: int) -> int:
        dtype, scope = str(op.dst.source.dtype), op.dst.source.scope()
        if count == 1 or op.kind != "add" or op.order != RELAXED:
            return 1
        lanes = min(count, atomic_add_lanes(self._target, dtype, "shared" if "shared" in scope else scope))
        while lanes > 1 and (count % lanes or not self._multiple(op.dst.indices[0], lanes)):
            lanes //= 2
        return lanes

    def _multiple(self, value: Any, factor: int) -> bool:
        known = constant(value)
        if known is not None:
            return known % factor == 0
        found = self._analyzer.modular_set(value)
        return int(found.coeff) % factor == 0 and int(found.base) % factor == 0

    def _call(self, op: Atomic, first: int, lanes: int) -> Any:
        """The helper for `lanes` elements from the `first`-th of the group."""
        buffer, at = op.dst.source, op.dst.indices[0]
        scope = "shared" if self._target.kind == "metal" and buffer.scope().startswith("shared") else "global"
        name = helper_name(op.kind, str(buffer.dtype), op.order, lanes, scope)
        dst = X.address_of(X.BufferLoad(buffer, [at + first if first else at]))
        dtype = str(buffer.dtype) if lanes == 1 and op.kind != "store" else "void"
        args = [dst, *op.values[first : first + lanes]]
        return tile_ops.call(f"tl.{self._target.kind}.{name}", args, dtype=dtype, span=op.span)
