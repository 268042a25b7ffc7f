"""Reducers, and questions about whole tiles (T.any_of, T.all_of), as plain statements of the kernel."""

from __future__ import annotations

import ast
from typing import Any

from tvm import tirx as X

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.diagnostics.span import Span
from tilelang.frontend.arguments import Bound
from tilelang.frontend.model import Late
from tilelang.frontend.operations.intrinsics import compute
from tilelang.frontend.operators import binary, cast, compare
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import named_type, scalar
from tilelang.frontend.tensors import new_buffer
from tilelang.ir.folds import identity
from tilelang.ir.tile_program import Access, Alloc, Bind, Do, For, Loop, Operand, OpRecord, Store
from tilelang.ir.values import Buffer, Index, Region, Unknown

_FOLD = {"bitand": "bitwise_and", "bitor": "bitwise_or", "bitxor": "bitwise_xor"}


def reducer_call(run: Run, op: str, call: Bound) -> Any:
    """The effect of a reducer's statement, the value of a question."""
    if run.launch is None:
        what = "stands outside `with T.Kernel(...)`"
        return run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)
    if op in ("any_of", "all_of"):
        return _question(run, op, call)
    if op == "reducer_update":
        return _update(run, call)
    reducer = _reducer(run, call, "reducer")
    if isinstance(reducer, Unknown):
        return None
    if op == "reducer_init":
        init = call.value("init")
        start = (
            identity(str(reducer.reducer), str(reducer.dtype))
            if init is None
            else scalar(run, init, call.span_of("init"))
        )
        _do(run, "fill", call, {"buffer": Operand(_whole(reducer, call), call.span), "value": start})
    elif call.value("dst") is not None:
        dst = call.value("dst")
        dst = Region(dst, None, call.span_of("dst")) if isinstance(dst, Buffer) else dst
        if isinstance(dst, Unknown):
            run.complete = False
        _do(run, "copy", call, {"src": Operand(_whole(reducer, call), call.span), "dst": dst})
    return None


def _do(run: Run, op: str, call: Bound, operands: dict[str, Any]) -> None:
    made = {n: v if isinstance(v, Operand) else Operand(v, call.span_of(n)) for n, v in operands.items()}
    run.emit(Do(OpRecord(op, call.span, call.callee_span, made, run.context, call.callee)))


def _whole(buffer: Buffer, call: Bound) -> Region:
    return Region(buffer, None, call.span_of("reducer"))


def _reducer(run: Run, call: Bound, name: str) -> Buffer | Unknown:
    value = call.value(name)
    if isinstance(value, Region) and value.whole:
        value = value.buffer
    if isinstance(value, Unknown) or (isinstance(value, Buffer) and value.reducer):
        return value
    found = f"`{value.name}`" if isinstance(value, Buffer) else named_type(value)
    what = f"takes a tile that T.alloc_reducer made, not {found}"
    return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)


def _update(run: Run, call: Bound) -> None:
    target = call.value("target")
    if isinstance(target, Late):
        target = target.region
    if isinstance(target, Unknown):
        run.complete = False
        return
    if not isinstance(target, Region) or not target.is_point or not target.buffer.reducer:
        what = "`target` must be one element of a reducer, as in acc[i]"
        run.report(BAD_ARGUMENTS, call.span_of("target"), callee=call.callee, what=what)
        return
    value = scalar(run, call.value("value"), call.span_of("value"))
    if isinstance(value, Unknown):
        run.complete = False
        return
    buffer = target.buffer
    if not buffer.known or any(isinstance(s, Unknown) for s in target.starts):
        run.complete = False
        return
    at = tuple(X.const(s, "int32") if isinstance(s, int) else s for s in target.starts)
    old = X.BufferLoad(buffer.var, list(at))
    new = cast(str(buffer.dtype), value)
    kind = str(buffer.reducer)
    folded = binary(ast.Add, old, new) if kind == "sum" else compute(_FOLD.get(kind, kind), old, new)
    for mode in ("read", "write"):
        run.accesses.append(Access(buffer, target.indices or (), mode, target.span, run.context))
    run.emit(Store(buffer, at, folded, call.span, run.context))


def refuse_conditions(run: Run, op: str, found: str, span: Span) -> Unknown:
    """T.any_of and T.all_of of conditions instead of a tile."""
    joined = "i < m or j < n" if op == "any_of" else "i < m and j < n"
    what = f"asks about the elements of one tile or slice, {found}; conditions are joined as in `{joined}`"
    return run.report(BAD_ARGUMENTS, span, callee=f"T.{op}", what=what)


def _question(run: Run, op: str, call: Bound) -> Any:
    """A loop of each thread over the elements: their disjunction or conjunction in a variable."""
    value = call.value("buffer")
    span = call.span_of("buffer")
    region = Region(value, None, span) if isinstance(value, Buffer) else value
    if isinstance(region, Late):
        region = region.region
    if isinstance(region, Unknown):
        return region
    if not isinstance(region, Region):
        return refuse_conditions(run, op, f"not {named_type(value)}", span)
    extents = list(region.extents)
    if any(isinstance(e, Unknown) for e in extents) or not region.buffer.known:
        return run.unknown("the extents of the tile are not known")
    saved, run.binding_name = run.binding_name, (op, call.span)
    start = int(op == "all_of")
    flag = new_buffer(run, "local.var", (1,), "int32", call.span, init=start)
    run.binding_name = saved
    run.emit(Alloc(flag, call.span))
    loop_vars = tuple(run.fresh(f"e{k}") for k in range(len(extents)))
    points = tuple(
        Index(binary(ast.Add, s, v), None, span) for s, v in zip(region.starts, loop_vars, strict=True)
    )
    body: list[Any] = []
    loop = Loop("serial", loop_vars, tuple(0 for _ in extents), tuple(extents), call.span)
    with run.nested(body):
        element = scalar(run, Region(region.buffer, points, span), span)
        if isinstance(element, Unknown):
            return element
        seen = compare(ast.NotEq, element, 0) if str(region.buffer.dtype) != "bool" else element
        old = X.BufferLoad(flag.var, [X.const(0, "int32")])
        one = cast("int32", seen)
        new = X.bitwise_or(old, one) if op == "any_of" else X.bitwise_and(old, one)
        run.emit(Store(flag, (X.const(0, "int32"),), new, call.span, run.context))
    nested: list[Any] = body
    for k in reversed(range(len(loop_vars))):
        single = Loop("serial", (loop.vars[k],), (0,), (extents[k],), call.span)
        nested = [For(single, nested)]
    for node in nested:
        run.emit(node)
    result = run.fresh(op, "bool")
    found = X.NE(X.BufferLoad(flag.var, [X.const(0, "int32")]), X.const(0, "int32"))
    run.emit(Bind(result, found, call.span))
    return result
