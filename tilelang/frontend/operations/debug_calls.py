"""T.print, T.device_assert and `assert`: calls whose text is made here, where names and places are known."""

from __future__ import annotations

import ast
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.diagnostics.span import Span
from tilelang.frontend.arguments import Bound
from tilelang.frontend.model import Late
from tilelang.frontend.operations.packed_pairs import vector_lanes
from tilelang.frontend.operators import as_bool, binary, cast, literal
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import dtype_of_expr, named_type, scalar
from tilelang.frontend.tensors import new_buffer
from tilelang.ir import tile_ops
from tilelang.ir.tile_program import Alloc, Bind, Do, Evaluate, For, Loop, Operand, OpRecord
from tilelang.ir.values import Buffer, Index, Region, Unknown

_WHERE = "BlockIdx=(%d, %d, %d), ThreadIdx=(%d, %d, %d)"


def debug_call(run: Run, op: str, call: Bound) -> None:
    """Put the statement into the tree."""
    if run.launch is None:
        run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what="stands outside `with T.Kernel(...)`")
        return
    message = call.value("msg", "")
    if isinstance(message, Unknown):
        message = ""
    if not isinstance(message, str):
        what = f"`msg` must be a text, not {named_type(message)}"
        run.report(BAD_ARGUMENTS, call.span_of("msg"), callee=call.callee, what=what)
        return
    if op == "print":
        _print(run, call, message)
        return
    condition = scalar(run, call.value("condition"), call.span_of("condition"))
    where = not bool(call.value("no_stack_info", False))
    device_assert(run, condition, message, call.span_of("condition"), call.span, with_place=where)


def device_assert(
    run: Run, condition: Any, message: str, at: Span, span: Span, *, with_place: bool = True
) -> None:
    """A check that each thread makes. A condition known now is checked now."""
    if isinstance(condition, Unknown):
        return
    if not isinstance(condition, ir.Expr):
        if not condition:
            said = f": {message}" if message else ""
            what = f"the condition is known to be false{said}"
            run.report(BAD_ARGUMENTS, at, callee="assert", what=what)
        return
    text = f"`{run.text_of(at)}` does not hold"
    if message:
        text = f"{message} ({text})"
    place = f"{span.path}:{span.line}: " if with_place else ""
    check = tile_ops.call(
        tile_ops.CHECK, [as_bool(condition), ir.StringImm(f"{place}assertion failed: {text}")], span=span
    )
    run.emit(Evaluate(check, span))


def _print(run: Run, call: Bound, message: str) -> None:
    value = call.value("obj")
    if isinstance(value, Late):
        value = value.region
    said = f"msg='{message}' ".replace("%", "%%") if message else ""
    if value is None:
        _emit(run, call, tile_ops.PRINT, [f"{said}{_WHERE}"])
        return
    region = Region(value, None, call.span_of("obj")) if isinstance(value, Buffer) else value
    if isinstance(region, Region) and not region.is_point and region.buffer.scope != "local.var":
        _print_tile(run, call, said, region)
        return
    number = scalar(run, value, call.span_of("obj"))
    if isinstance(number, Unknown):
        run.complete = False
        return
    if isinstance(number, str):
        _emit(run, call, tile_ops.PRINT, [f"msg='{number}' {_WHERE}"])
        return
    if not isinstance(number, ir.Expr | bool | int | float):
        what = f"`obj` must be a number or a tile, not {named_type(number)}"
        run.report(BAD_ARGUMENTS, call.span_of("obj"), callee=call.callee, what=what)
        return
    lanes = vector_lanes(number)
    if lanes > 1:
        _print_vector(run, call, said, number, lanes)
        return
    kind, shown = _shown(number)
    _emit(run, call, tile_ops.PRINT, [f"{said}{_WHERE}: dtype={kind} value={_format(shown)}", shown])


def _print_vector(run: Run, call: Bound, said: str, vector: Any, lanes: int) -> None:
    """All elements in one line."""
    name = run.fresh("printed", dtype_of_expr(vector))
    run.emit(Bind(name, vector, call.span))
    elements = [_shown(X.Shuffle([name], [X.const(k, "int32")]))[1] for k in range(lanes)]
    values = ", ".join(map(_format, elements))
    text = f"{said}{_WHERE}: dtype={dtype_of_expr(vector)} value=({values})"
    _emit(run, call, tile_ops.PRINT, [text, *elements])


def _shown(value: Any) -> tuple[str, Any]:
    """The dtype of a number and the number as what can be printed: float32, float64 or 64-bit integers."""
    if not isinstance(value, ir.Expr):
        value = literal(value)
    dtype = dtype_of_expr(value)
    if "float" in dtype:
        return dtype, value if dtype in ("float32", "float64") else cast("float32", value)
    return dtype, cast("uint64" if dtype == "uint64" else "int64", value)


def _format(shown: Any) -> str:
    return {"int64": "%lld", "uint64": "%llu"}.get(dtype_of_expr(shown), "%f")


def _print_tile(run: Run, call: Bound, said: str, region: Region) -> None:
    """A loop over the elements. Fragments go to shared memory first, where one thread sees them all."""
    if any(isinstance(e, Unknown) for e in region.extents) or not region.buffer.known:
        run.complete = False
        return
    span, name = call.span, region.buffer.name
    shared = region.buffer.scope in ("shared", "local.fragment", "local.reducer")
    if region.buffer.scope in ("local.fragment", "local.reducer"):
        saved, run.binding_name = run.binding_name, (f"{name}_printed", span)
        staged = new_buffer(run, "shared", region.buffer.shape, region.buffer.dtype, span)
        run.binding_name = saved
        run.emit(Alloc(staged, span))
        operands = {
            "src": Operand(Region(region.buffer, None, span), span),
            "dst": Operand(Region(staged, None, span), span),
        }
        run.emit(Do(OpRecord("copy", span, call.callee_span, operands, run.context, call.callee)))
        region = Region(staged, region.indices, region.span)
    loop_vars = [run.fresh(f"p{k}") for k in range(len(region.extents))]
    points = tuple(
        Index(binary(ast.Add, s, v), None, span) for s, v in zip(region.starts, loop_vars, strict=True)
    )
    body: list[Any] = []
    with run.nested(body):
        kind, shown = _shown(scalar(run, Region(region.buffer, points, span), span))
        index = ", ".join("%lld" for _ in points)
        text = f"{said}{_WHERE}: buffer={name}, index=({index}), dtype={kind} value={_format(shown)}"
        at = [cast("int64", p.start) for p in points]
        _emit(run, call, tile_ops.PRINT_ONCE if shared else tile_ops.PRINT, [text, *at, shown])
    for var, extent in reversed(list(zip(loop_vars, region.extents, strict=True))):
        body = [For(Loop("serial", (var,), (0,), (extent,), span), body)]
    for node in body:
        run.emit(node)


def _emit(run: Run, call: Bound, op: str, parts: list[Any]) -> None:
    text, *values = parts
    made = tile_ops.call(op, [ir.StringImm(text + "\n"), *values], span=call.span)
    run.emit(Evaluate(made, call.span))
