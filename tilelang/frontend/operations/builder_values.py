"""More names of TVM's own script: ramps as indices, variables with values, registers of mma."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Argument, Bound
from tilelang.frontend.dtypes import read_dtype
from tilelang.frontend.model import BufferData
from tilelang.frontend.names import store_element
from tilelang.frontend.operations.named_intrinsics import NAMED_CALLS
from tilelang.frontend.operations.thread_calls import THREAD_CALLS
from tilelang.frontend.operators import binary, cast, fold, literal
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_unknown, dtype_of_expr, named_type, read_element, scalar
from tilelang.ir.prove import substitute
from tilelang.ir.tile_program import Bind
from tilelang.ir.values import Buffer, Index, Region, Unknown, as_int, show
from tilelang.language.emitters import mma_store_index_map

_MOST_LANES = 64
_TILE = 16  # rows and columns that mma_store writes
_REGISTERS = 8


@dataclass(frozen=True)
class ScheduleNote:
    """A part of a schedule that the author writes for warps; nothing follows it."""

    name: str


@dataclass(frozen=True)
class ValueRange:
    """`T.Range(begin, end)`: a value with two attributes."""

    min: Any
    extent: Any


def _range(run: Run, call: Bound) -> Any:
    ends = [scalar(run, call.value(name), call.span_of(name)) for name in ("begin", "end")]
    lost = any_unknown(ends)
    if lost is not None:
        return lost
    for name, value in zip(("begin", "end"), ends, strict=True):
        if not isinstance(value, ir.Expr | int) or isinstance(value, bool):
            what = f"`{name}` must be an integer, not {named_type(value)}"
            return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)
    return ValueRange(ends[0], fold(binary(ast.Sub, ends[1], ends[0])))


def _ramp(run: Run, call: Bound) -> Any:
    base = scalar(run, call.value("base"), call.span_of("base"))
    stride, lanes = as_int(call.value("stride")), as_int(call.value("lanes"))
    lost = any_unknown([base, call.value("stride"), call.value("lanes")])
    if lost is not None:
        run.complete = False
        return lost
    if stride is None or lanes is None or not 1 <= lanes <= _MOST_LANES:
        what = f"`stride` is a number known at compile time, and `lanes` one from 1 to {_MOST_LANES}"
        return run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)
    if isinstance(base, int):
        base = X.const(base, "int32")
    if not isinstance(base, ir.Expr) or not dtype_of_expr(base).startswith(("int", "uint")):
        found = dtype_of_expr(base) if isinstance(base, ir.Expr) else named_type(base)
        what = f"`base` must be an integer, not {found}"
        return run.report(BAD_ARGUMENTS, call.span_of("base"), callee=call.callee, what=what)
    return base if lanes == 1 else X.Ramp(base, X.const(stride, dtype_of_expr(base)), lanes)


def _variable(run: Run, call: Bound) -> Any:
    dtype = read_dtype(run, call.value("dtype"), call.span_of("dtype"))
    if isinstance(dtype, Unknown):
        return dtype
    given = call.value("name", "")
    name = given or (run.binding_name[0] if run.binding_name else "v")
    made = run.fresh(str(name), dtype)
    run.unbound[made] = call.span
    return made


def refuse_unbound(run: Run) -> None:
    """bad-arguments for variables that were made and never given a value."""
    for v, span in run.unbound.items():
        what = f"the variable `{v.name}` is given no value: T.let or T.Let does that"
        run.report(BAD_ARGUMENTS, span, callee="T.var", what=what)
    run.unbound.clear()


def _with_values(run: Run, call: Bound) -> Any:
    """`T.Let(expr, where={v: value})`."""
    where, body = call.value("where"), call.value("expr")
    if isinstance(where, Unknown):
        run.complete = False
        return where
    if not isinstance(where, Mapping) or not where:
        what = f"`where` must be a dict of variables and values, not {named_type(where)}"
        return run.report(BAD_ARGUMENTS, call.span_of("where"), callee=call.callee, what=what)
    given = {}
    for v, value in where.items():
        bound = _give(run, call, v, value, "where")
        if isinstance(bound, Unknown):
            return bound
        given[v] = bound
    return _replaced(run, scalar(run, body, call.span_of("expr")), given)


def _let(run: Run, call: Bound) -> Any:
    """`T.let(v, value, body)`, or from here on."""
    v = call.value("v")
    bound = _give(run, call, v, call.value("value"), "value")
    body = call.value("body")
    if isinstance(bound, Unknown) or body is None:
        return bound
    return _replaced(run, scalar(run, body, call.span_of("body")), {v: bound})


def _give(run: Run, call: Bound, v: Any, value: Any, name: str) -> Any:
    """The variable bound to the value; another one where it has been bound before."""
    value = scalar(run, value, call.span_of(name))
    lost = any_unknown([v, value])
    if lost is not None:
        run.complete = False
        return lost
    if not isinstance(v, ir.Var) or not isinstance(value, ir.Expr | bool | int | float):
        what = "a variable made by T.var gets a number: " + (
            f"{named_type(v)} is no variable" if not isinstance(v, ir.Var) else f"not {named_type(value)}"
        )
        return run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)
    dtype = dtype_of_expr(v)
    value = cast(dtype, value if isinstance(value, ir.Expr) else literal(value))
    target = v if v in run.unbound else run.fresh(str(v.name), dtype)
    run.unbound.pop(v, None)
    run.emit(Bind(target, value, call.span))
    return target


def _replaced(run: Run, body: Any, given: Mapping[Any, Any]) -> Any:
    changed = {v: bound for v, bound in given.items() if not v.same_as(bound)}
    if not changed or not isinstance(body, ir.Expr):
        return body
    return substitute(body, changed)


def _call(run: Run, call: Bound) -> Any:
    args = call.value("args")
    if isinstance(args, Unknown):
        run.complete = False
        return args
    at = call.span_of("args")
    items = [Argument(a, at) for a in (args if isinstance(args, list | tuple) else [args])]
    arguments = dict(call.arguments)
    arguments["func_name"] = arguments.get("op", Argument(call.value("op"), call.span))
    return NAMED_CALLS["call_intrin"](run, replace(call, arguments=arguments, items={"args": items}))


def _is_null(run: Run, call: Bound) -> Any:
    """No argument is null where it is used: the launch refuses None."""
    value = call.value("x")
    if isinstance(value, BufferData):
        run.complete = value.was_complete
        return False
    if isinstance(value, Unknown):
        run.complete = False
        return value
    if isinstance(value, Buffer):
        return False
    what = f"`x` must be an address, as A.data, not {named_type(value)}"
    return run.report(BAD_ARGUMENTS, call.span_of("x"), callee=call.callee, what=what)


def _registers(run: Run, call: Bound, name: str) -> Buffer | Unknown:
    value = call.value(name)
    if isinstance(value, BufferData):
        run.complete = value.was_complete
        value = value.buffer
    if isinstance(value, Unknown):
        run.complete = False
        return value
    if isinstance(value, Buffer) and value.scope in ("local", "local.fragment") and len(value.shape) == 1:
        return value
    what = f"`{name}` must be an array of registers with one dimension (T.alloc_local), as C.data"
    return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)


def _element(call: Bound, array: Buffer, place: Any) -> Region:
    return Region(array, (Index(place, None, call.span),), call.span)


def _fill(run: Run, call: Bound) -> None:
    array, count = _registers(run, call, "local_ptr"), as_int(call.value("local_size"))
    offset = scalar(run, call.value("offset"), call.span_of("offset"))
    if isinstance(array, Unknown) or isinstance(offset, Unknown):
        return
    if count is None or count < 0:
        what = "`local_size` must be a number known at compile time"
        run.report(BAD_ARGUMENTS, call.span_of("local_size"), callee=call.callee, what=what)
        return
    for k in range(count):
        store_element(run, _element(call, array, binary(ast.Add, offset, k)), 0, call.span)


def _store(run: Run, call: Bound) -> None:
    array, target = _registers(run, call, "src_ptr"), call.value("dst_ptr")
    offset, stride = (scalar(run, call.value(n), call.span_of(n)) for n in ("src_offset", "dst_stride"))
    if isinstance(array, Unknown) or any_unknown([target, offset, stride]) is not None:
        run.complete = run.complete and any_unknown([target, offset, stride]) is None
        return
    if as_int(call.value("m")) != _TILE or as_int(call.value("n")) != _TILE:
        what = f"only tiles of {_TILE} by {_TILE} are stored"
        run.report(BAD_ARGUMENTS, call.span_of("m"), callee=call.callee, what=what)
        return
    place = _first_element(run, target)
    if place is None:
        what = '`dst_ptr` must be an address, as in T.access_ptr(C[i, j], "w")'
        run.report(BAD_ARGUMENTS, call.span_of("dst_ptr"), callee=call.callee, what=what)
        return
    buffer, first = place
    width = as_int(buffer.shape[-1])
    if len(first) > 1 and (width is None or as_int(stride) != width):
        what = (
            f"rows of `{buffer.name}` are {show(buffer.shape[-1])} elements, not `dst_stride` {show(stride)}"
        )
        run.report(BAD_ARGUMENTS, call.span_of("dst_stride"), callee=call.callee, what=what)
        return
    lane = THREAD_CALLS["get_lane_idx"](run, replace(call, arguments={}))
    if isinstance(lane, Unknown):
        return
    for k in range(_REGISTERS):
        row, column = mma_store_index_map(lane, k)
        indices = list(first)
        indices[-1] = binary(ast.Add, indices[-1], column)
        if len(first) > 1:
            indices[-2] = binary(ast.Add, indices[-2], row)
        else:
            indices[-1] = binary(ast.Add, indices[-1], binary(ast.Mult, row, stride))
        value = read_element(run, _element(call, array, binary(ast.Add, offset, k)))
        into = Region(buffer, tuple(Index(i, None, call.span) for i in indices), call.span)
        store_element(run, into, value, call.span)


def _first_element(run: Run, target: Any) -> tuple[Buffer, list[Any]] | None:
    """The element that an address names."""
    if not (isinstance(target, ir.Call) and isinstance(target.op, ir.Op)):
        return None
    load: Any = target.args[0] if target.op.name == "tirx.address_of" else None
    if not isinstance(load, ir.TensorLoad):
        return None
    place: Any = load
    buffer = next((b for b in run.buffers if b.known and b.var.same_as(place.source)), None)
    return None if buffer is None else (buffer, list(place.indices))


def _note(run: Run, call: Bound) -> ScheduleNote:
    return ScheduleNote(call.callee)


def _nothing(run: Run, call: Bound) -> None:
    """What the compiler sees by itself, or decides by itself."""


BUILDER_VALUES: Mapping[str, Callable[[Run, Bound], Any]] = {
    "Ramp": _ramp,
    "ramp": _ramp,
    "Range": _range,
    "var": _variable,
    "Let": _with_values,
    "let": _let,
    "Call": _call,
    "isnullptr": _is_null,
    "mma_fill": _fill,
    "mma_store": _store,
    "reads": _nothing,
    "writes": _nothing,
    "sblock_attr": _nothing,
    "annotate_ws_schedule": _nothing,
    "annotate_ws_pipeline_depth": _nothing,
    **dict.fromkeys(("WSOpRef", "WSSync", "WSRole", "WSPipeline", "WSScope", "WSSchedule", "WSInstr"), _note),
}
