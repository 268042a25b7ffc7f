"""Small tools for passes over TIRX: rebuilding statements, substituting variables, reading scopes and
loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tvm_ffi
from tvm import ir, sym
from tvm import tirx as X

from tilelang.ir.build import LOOP_KIND
from tilelang.ir.tile_ops import seq

FRAGMENT = "local.fragment"
Rewrite = Callable[[Any], Any]


def index(value: Any) -> Any:
    """`value` as an int32 expression if it is a Python integer."""
    return X.const(value, "int32") if isinstance(value, int) else value


def constant(value: Any) -> int | None:
    """The number if `value` is a constant integer."""
    if isinstance(value, int):
        return value
    return int(value.value) if isinstance(value, X.IntImm) else None


def shape_of(buffer: ir.Var) -> tuple[int, ...]:
    """The shape of a tile whose extents are constants. Raises ValueError for another."""
    found = [constant(n) for n in buffer.shape]
    if None in found:
        raise ValueError(f"{buffer.name} has a size known only at run time")
    return tuple(n for n in found if n is not None)


def bits_of(dtype: str) -> int:
    """Bits of one element in memory: 16 for float16, 8 for bool."""
    if dtype == "bool":
        return 8
    digits = "".join(c if c.isdigit() else " " for c in dtype.partition("_")[0]).split()
    return int(digits[0])


def loop_kind(stmt: Any) -> str | None:
    """`Parallel`, `Pipelined`, ... of a loop as the author wrote it; None for loops that a pass made."""
    if not isinstance(stmt, X.For) or LOOP_KIND not in stmt.annotations:
        return None
    return str(stmt.annotations[LOOP_KIND])


def remake(stmt: Any, rewrite: Rewrite) -> Any:
    """`stmt` with every direct child statement replaced by `rewrite(child)`; itself where nothing changed.

    A child may become None: it is left out.
    """
    if isinstance(stmt, X.SeqStmt):
        parts = [rewrite(s) for s in stmt.seq]
        if all(p is not None and p.same_as(s) for p, s in zip(parts, stmt.seq, strict=True)):
            return stmt
        return seq([q for p in parts if p is not None for q in (p.seq if isinstance(p, X.SeqStmt) else [p])])
    if isinstance(stmt, X.For):
        body = rewrite(stmt.body)
        return stmt if body is not None and body.same_as(stmt.body) else with_body(stmt, seq([body]))
    if isinstance(stmt, X.While):
        body = rewrite(stmt.body)
        same = body is not None and body.same_as(stmt.body)
        return stmt if same else X.While(stmt.condition, seq([body]), stmt.span)
    if isinstance(stmt, X.IfThenElse):
        then, orelse = (
            rewrite(stmt.then_case),
            rewrite(stmt.else_case) if stmt.else_case is not None else None,
        )
        same_else = (
            orelse is None
            if stmt.else_case is None
            else orelse is not None and orelse.same_as(stmt.else_case)
        )
        if then is not None and then.same_as(stmt.then_case) and same_else:
            return stmt
        return X.IfThenElse(stmt.condition, seq([then]), orelse, stmt.span)
    if isinstance(stmt, X.AttrStmt):
        body = rewrite(stmt.body)
        if body is not None and body.same_as(stmt.body):
            return stmt
        return X.AttrStmt(stmt.node, stmt.attr_key, stmt.value, seq([body]), stmt.span)
    return stmt


def with_body(loop: Any, body: Any, annotations: Mapping[str, Any] | None = None) -> Any:
    """The loop (`for` or `while`) around another body."""
    if isinstance(loop, X.While):
        return X.While(loop.condition, body, loop.span)
    notes = dict(loop.annotations.items()) if annotations is None else dict(annotations)
    return X.For(
        loop.loop_var,
        loop.min,
        loop.extent,
        loop.kind,
        body,
        loop.thread_binding,
        notes,
        loop.step,
        loop.span,
    )


def children(stmt: Any) -> list[Any]:
    """Direct child statements."""
    if isinstance(stmt, X.SeqStmt):
        return list(stmt.seq)
    if isinstance(stmt, X.For | X.While | X.AttrStmt):
        return [stmt.body]
    if isinstance(stmt, X.IfThenElse):
        return [stmt.then_case] + ([stmt.else_case] if stmt.else_case is not None else [])
    return []


def walk(stmt: Any) -> Iterator[Any]:
    """All statements in program order, outer before inner."""
    yield stmt
    for child in children(stmt):
        yield from walk(child)


def substitute(node: Any, values: Mapping[ir.Var, Any]) -> Any:
    """`node` (statement or expression) with variables, buffer variables included, replaced."""
    if not values:
        return node
    table = {v.__chandle__(): index(x) for v, x in values.items()}
    return tvm_ffi.structural_map(node, (ir.Var, lambda v: table.get(v.__chandle__(), v)))


def variables(node: Any) -> list[ir.Var]:
    """Every occurrence of a variable in `node`, buffers included, in order."""
    found: list[ir.Var] = []
    tvm_ffi.structural_walk(node, (ir.Var, found.append))
    return found


def uses(node: Any, candidates: set[int]) -> bool:
    """Whether one of the variables with these handles occurs in `node`."""
    return any(v.__chandle__() in candidates for v in variables(node))


def loads(node: Any) -> list[Any]:
    """Every TensorLoad in `node`, in order."""
    found: list[Any] = []
    tvm_ffi.structural_walk(node, (ir.TensorLoad, found.append))
    return found


def calls(node: Any) -> list[ir.Call]:
    """Every Call in `node`, in order."""
    found: list[ir.Call] = []
    tvm_ffi.structural_walk(node, (ir.Call, found.append))
    return found


def product(values: Any) -> int:
    return math.prod(values)


def map_operands(expr: Any, rewrite: Rewrite) -> Any:
    """`expr` with every direct operand replaced by `rewrite(operand)`; itself where nothing changed.

    The load inside an `address_of` is not an operand; its indices are.
    """
    kind = type(expr)
    if isinstance(expr, ir.TensorLoad):
        found = [rewrite(i) for i in expr.indices]
        same = all(a.same_as(b) for a, b in zip(found, expr.indices, strict=True))
        return expr if same else X.BufferLoad(expr.source, found, expr.span)
    if isinstance(expr, ir.Call):
        if isinstance(expr.op, ir.Op) and expr.op.name == "tirx.address_of":
            load = map_operands(expr.args[0], rewrite)
            return expr if load.same_as(expr.args[0]) else X.address_of(load)
        args = [rewrite(a) if isinstance(a, ir.Expr) else a for a in expr.args]
        same = all(a.same_as(b) for a, b in zip(args, expr.args, strict=True))
        return expr if same else ir.Call(expr.op, args, attrs=expr.attrs, ret_ty=expr.ty, span=expr.span)
    if kind is X.Cast:
        value = rewrite(expr.value)
        return expr if value.same_as(expr.value) else X.Cast(expr.ty, value, expr.span)
    if kind is X.Select:
        parts = (expr.condition, expr.true_value, expr.false_value)
        new = [rewrite(p) for p in parts]
        same = all(a.same_as(b) for a, b in zip(new, parts, strict=True))
        return expr if same else X.Select(*new, expr.span)
    if kind in (X.Not, X.BitwiseNot):
        a = rewrite(expr.a)
        return expr if a.same_as(expr.a) else kind(a, expr.span)
    if kind is X.Broadcast:
        value = rewrite(expr.value)
        return expr if value.same_as(expr.value) else X.Broadcast(value, expr.lanes, expr.span)
    if kind is X.Ramp:
        base, stride = rewrite(expr.base), rewrite(expr.stride)
        same = base.same_as(expr.base) and stride.same_as(expr.stride)
        return expr if same else X.Ramp(base, stride, expr.lanes, expr.span)
    if kind is X.Let:
        value, body = rewrite(expr.value), rewrite(expr.body)
        same = value.same_as(expr.value) and body.same_as(expr.body)
        return expr if same else X.Let(expr.var, value, body, expr.span)
    if hasattr(expr, "a") and hasattr(expr, "b"):
        a, b = rewrite(expr.a), rewrite(expr.b)
        return expr if a.same_as(expr.a) and b.same_as(expr.b) else kind(a, b, expr.span)
    return expr


def assume(analyzer: sym.Analyzer, call: Any) -> Any:
    """Let `analyzer` know what a `tl.assume` call says about numbers that do not change, as long as the
    result is kept.
    """
    condition = call.args[0]
    if loads(condition):
        return None
    scope = analyzer.constraint_scope(condition)
    scope.__enter__()
    return scope
