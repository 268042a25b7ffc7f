"""Flat buffers: one index everywhere.

In:  a thread-level function whose global, shared and local buffers have shapes.
Out: the same over one-dimensional buffers: global ones by their strides, shared ones by their layouts, local
     ones row-major. The sizes that shapes depend on follow the parameters, in the order of
     `LaunchPlan.arguments`.
Not: moving anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, sym
from tvm import tirx as X

from tilelang.ir.build import UNROLL
from tilelang.ir.simplify import simplify
from tilelang.layout.formula import evaluate_formula
from tilelang.layout.shared import SharedLayout
from tilelang.passes.plan_shared import layout_of
from tilelang.passes.walk import constant, index, map_operands, remake


@dataclass(frozen=True)
class Flat:
    """The function, and for each old buffer that is still allocated or passed its flat one, by the old one's
    handle.
    """

    func: X.PrimFunc
    buffers: Mapping[int, ir.Var]


def flatten(func: X.PrimFunc, shared: Mapping[int, SharedLayout], sizes: Sequence[ir.Var]) -> Flat:
    """Apply the pass. `sizes`: variables in the parameters' shapes, which become parameters."""
    scalars = [p for p in func.params if not X.is_buffer_var(p)]
    work = _Flatten(shared, {str(v.name): v for v in (*sizes, *scalars)})
    params = [work.flat(p) if X.is_buffer_var(p) else p for p in func.params]
    body = work.statement(func.body)
    attrs = {str(k): func.attrs[k] for k in func.attrs.keys()}  # noqa: SIM118 (a DictAttrs, no dict)
    new = X.PrimFunc([*params, *sizes], body, span=func.span).with_attrs(attrs)
    return Flat(new, work.buffers)


class _Flatten:
    def __init__(self, shared: Mapping[int, SharedLayout], sizes: Mapping[str, Any]) -> None:
        self._shared = shared
        self._sizes = sizes
        self.buffers: dict[int, ir.Var] = {}
        self._kept: list[ir.Var] = []  # old buffers, so that their handles stay theirs
        self._analyzer = sym.Analyzer()

    def flat(self, buffer: ir.Var) -> ir.Var:
        """The one-dimensional buffer that stands for `buffer`."""
        handle = buffer.__chandle__()
        if handle not in self.buffers:
            self._kept.append(buffer)
            self.buffers[handle] = self._make(buffer)
        return self.buffers[handle]

    def _make(self, buffer: ir.Var) -> ir.Var:
        scope = buffer.scope()
        if scope.startswith("shared"):
            total: Any = layout_of(buffer, self._shared).elements
        else:
            total = _product(buffer.shape)
            if buffer.strides:  # the last element's offset plus one
                total = index(1)
                for n, s in zip(buffer.shape, buffer.strides, strict=True):
                    total = total + (n - 1) * s
            total = self._analyzer.simplify(total)
        scope = "local" if scope == "local.var" else scope
        return X.decl_buffer((total,), str(buffer.dtype), str(buffer.name), scope=scope)

    def offset(self, buffer: ir.Var, indices: Sequence[Any]) -> Any:
        """The index into the flat buffer; a vector index stays one."""
        if not indices:  # a tensor of one number
            return index(0)
        last = indices[-1]
        lanes = None
        if isinstance(last, X.Ramp):
            indices, lanes = [*indices[:-1], last.base], int(last.lanes)
        value = simplify(self._analyzer, index(self._scalar_offset(buffer, list(indices))))
        value = tvm_ffi.structural_map(value, (X.BitwiseXor, _without_zero))
        return value if lanes is None else X.Ramp(value, index(1), lanes)

    def _scalar_offset(self, buffer: ir.Var, indices: list[Any]) -> Any:
        if buffer.scope().startswith("shared"):
            return layout_of(buffer, self._shared).offset(indices)
        stored = self._shared.get(buffer.__chandle__())
        if stored is not None:  # a global tensor in the order that its author annotated
            return evaluate_formula(stored.formula, indices, self._sizes)
        strides = list(buffer.strides) or _row_strides(buffer.shape)
        if _is_large(buffer.shape, strides):
            # The product of two constants would wrap in int32.
            indices = [i.astype("int64") if hasattr(i, "astype") else X.const(i, "int64") for i in indices]
        total: Any = index(0)
        for i, s in zip(indices, strides, strict=True):
            total = total + (i if constant(s) == 1 else i * s)
        return total

    def statement(self, stmt: Any) -> Any:
        if isinstance(stmt, X.AttrStmt) and stmt.attr_key == "thread_extent":
            self._analyzer.bind(stmt.node.var, ir.Range.from_min_extent(index(0), stmt.value), True)
            return remake(stmt, self.statement)
        if isinstance(stmt, X.AllocBuffer):
            return X.AllocBuffer(self.flat(stmt.buffer), span=stmt.span)
        if isinstance(stmt, X.DeclBuffer):
            return X.DeclBuffer(self.flat(stmt.buffer), data=self.expression(stmt.data), span=stmt.span)
        if isinstance(stmt, X.BufferStore):
            at = self.offset(stmt.buffer, [self.expression(i) for i in stmt.indices])
            return X.BufferStore(self.flat(stmt.buffer), self.expression(stmt.value), [at], stmt.span)
        if isinstance(stmt, X.Evaluate):
            return X.Evaluate(self.expression(stmt.value), stmt.span)
        if isinstance(stmt, X.Bind):
            return X.Bind(stmt.var, self.expression(stmt.value), stmt.span)
        if isinstance(stmt, X.For):
            self._analyzer.bind(stmt.loop_var, ir.Range.from_min_extent(stmt.min, stmt.extent), True)
            bounds = [self.expression(stmt.min), self.expression(stmt.extent)]
            body = self.statement(stmt.body)
            notes = {UNROLL: stmt.annotations[UNROLL]} if UNROLL in stmt.annotations else None
            return X.For(
                stmt.loop_var, *bounds, stmt.kind, body, annotations=notes, step=stmt.step, span=stmt.span
            )
        if isinstance(stmt, X.While):
            return X.While(self.expression(stmt.condition), self.statement(stmt.body), stmt.span)
        if isinstance(stmt, X.IfThenElse):
            orelse = self.statement(stmt.else_case) if stmt.else_case is not None else None
            return X.IfThenElse(
                self.expression(stmt.condition), self.statement(stmt.then_case), orelse, stmt.span
            )
        return remake(stmt, self.statement)

    def expression(self, expr: Any) -> Any:
        if isinstance(expr, ir.TensorLoad):
            at = self.offset(expr.source, [self.expression(i) for i in expr.indices])
            return X.BufferLoad(self.flat(expr.source), [at], expr.span)
        if isinstance(expr, ir.Call) and isinstance(expr.op, ir.Op) and expr.op.name == "tirx.address_of":
            return X.address_of(self.expression(expr.args[0]))
        if isinstance(expr, ir.Var) and X.is_buffer_var(expr):
            return self.flat(expr)
        return map_operands(expr, self.expression)


def _without_zero(xor: X.BitwiseXor) -> Any:
    """The exchange of chunks in rows that keep theirs, which the analyzer leaves."""
    return xor.a if constant(xor.b) == 0 else xor


def _is_large(shape: Sequence[Any], strides: Sequence[Any]) -> bool:
    """Whether offsets into a tensor of constant extents can leave int32."""
    ends = [(constant(n), constant(s)) for n, s in zip(shape, strides, strict=True)]
    return sum((n - 1) * s for n, s in ends if n is not None and s is not None) >= 1 << 31


def _row_strides(shape: Sequence[Any]) -> list[Any]:
    return [_product(shape[k + 1 :]) for k in range(len(shape))]


def _product(sizes: Sequence[Any]) -> Any:
    """The product of extents: an int64 where constants leave int32, as a tensor past 2 GiB does."""
    total: Any = index(1)
    for n in reversed(list(sizes)):
        a, b = constant(total), constant(n)
        if a is None or b is None:
            total = total * n
        else:
            total = X.const(a * b, "int32" if a * b < 1 << 31 else "int64")
    return total
