"""Atomic calls: on one element with numbers, or on tiles; an old value becomes a scalar, read once."""

from __future__ import annotations

import ast
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Bound, required_region
from tilelang.frontend.model import Late
from tilelang.frontend.operators import binary, representable
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import named_type, scalar
from tilelang.frontend.slices import slice_length
from tilelang.frontend.tensors import new_buffer
from tilelang.frontend.unfit_constants import note_unfit
from tilelang.ir.tile_program import Alloc, Context, Do, For, Loop, Operand, OpRecord, Store
from tilelang.ir.values import Buffer, Index, Region, Unknown, as_int
from tilelang.ops.atomic import RELAXED

_ORDERS = ("relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst")
_LEGAL = {
    "load": ("relaxed", "consume", "acquire", "seq_cst"),
    "store": ("relaxed", "release", "seq_cst"),
}


def atomic(run: Run, kind: str, lanes: int, call: Bound) -> Any:
    """`T.atomic_<kind>(...)`: the old value where it is asked for, None elsewhere."""
    name = "src" if kind == "load" else "dst"
    dst = required_region(run, call, name, "an element or a part of a buffer")
    order = _order(run, kind, call)
    wants = kind == "load" or call.value("return_prev", False)
    if isinstance(wants, Unknown):
        return run.unknown(wants.reason)
    given = _value(run, kind, lanes, call, dst)
    if any(isinstance(v, Unknown) for v in (dst, order, given)):
        run.complete = False
        if isinstance(dst, Unknown):
            return dst
    if run.launch is None:
        what = "stands outside `with T.Kernel(...)`"
        return run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)
    tile = given if isinstance(given, Region) and lanes == 1 else None
    if wants and tile is not None:
        what = "the old values of a tile have no place to go: use return_prev with one element"
        return run.report(BAD_ARGUMENTS, call.span_of("return_prev"), callee=call.callee, what=what)
    if isinstance(dst, Region) and isinstance(given, list) and _over_tile(kind, wants, dst):
        return _each_element(run, kind, order, call, dst, given[0])
    if isinstance(dst, Region) and tile is None and not isinstance(given, Unknown):
        dst = _element(run, call, name, dst, lanes)
        if isinstance(dst, Unknown):
            return dst
    operands = {
        "dst": Operand(dst, call.span_of(name)),
        "kind": Operand(kind, call.callee_span),
        "callee": Operand(call.callee, call.callee_span),
        "order": Operand(order, call.span_of("memory_order")),
    }
    if wants and lanes > 1:
        return _old_values(run, call, lanes, dst, given, operands)
    value_name = "src" if kind == "store" else "value"
    if lanes > 1:
        operands["lanes"] = Operand(lanes, call.callee_span)
    if isinstance(given, Region):
        operands["value"] = Operand(given, call.span_of(value_name))
    elif isinstance(given, list):
        operands["values"] = Operand(tuple(given), call.span_of(value_name))
    result = None
    if wants and isinstance(dst, Region):
        if isinstance(dst.buffer.dtype, Unknown):
            return run.unknown(dst.buffer.dtype.reason)
        bound_to = run.binding_name[0] if run.binding_name else "old"
        result = run.fresh(bound_to, str(dst.buffer.dtype))
        operands["result"] = Operand(result, call.span)
    run.emit(Do(OpRecord("atomic", call.span, call.callee_span, operands, run.context, call.callee)))
    return result


def _over_tile(kind: str, wants: Any, dst: Region) -> bool:
    """Whether an update by one number goes to every element of a slice or tile of several."""
    return kind in ("add", "max", "min") and not wants and _is_tile(dst)


def _each_element(run: Run, kind: str, order: Any, call: Bound, dst: Region, number: Any) -> None:
    """`for i, j in T.Parallel(...): dst[i, j] op= number`."""
    extents = list(dst.extents)
    if isinstance(order, Unknown) or any(isinstance(e, Unknown) for e in (*extents, *dst.starts)):
        run.complete = False
        return
    real = [d for d, extent in enumerate(extents) if as_int(extent) != 1]
    steps = {d: run.fresh("ijklmn"[k % 6]) for k, d in enumerate(real)}
    loop = Loop(
        "Parallel", tuple(steps.values()), tuple(0 for _ in real), tuple(extents[d] for d in real), call.span
    )
    points = tuple(
        Index(binary(ast.Add, start, steps[d]) if d in steps else start, None, dst.span)
        for d, start in enumerate(dst.starts)
    )
    body: list[Any] = []
    context = Context((*run.context.loops, loop), run.context.guards, run.context.maybe)
    with run.nested(body, context):
        operands = {
            "dst": Operand(Region(dst.buffer, points, dst.span), call.span_of("dst")),
            "kind": Operand(kind, call.callee_span),
            "callee": Operand(call.callee, call.callee_span),
            "order": Operand(order, call.span_of("memory_order")),
            "values": Operand((number,), call.span_of("value")),
        }
        run.emit(Do(OpRecord("atomic", call.span, call.callee_span, operands, run.context, call.callee)))
    run.emit(For(loop, body))


def _old_values(run: Run, call: Bound, lanes: int, dst: Any, given: Any, operands: dict[str, Operand]) -> Any:
    """The vector of what neighbours held; each of them is updated on its own."""
    if not isinstance(dst, Region) or not isinstance(given, Region):
        return next(v for v in (dst, given) if isinstance(v, Unknown))
    if isinstance(dst.buffer.dtype, Unknown):
        return run.unknown(dst.buffer.dtype.reason)
    dtype = str(dst.buffer.dtype)
    old = new_buffer(run, "local", (lanes,), dtype, call.span, fallback="old")
    run.emit(Alloc(old, call.span))
    for lane in range(lanes):
        value = scalar(run, _neighbour(given, lane), given.span)
        if isinstance(value, Unknown):
            run.complete = False
            return value
        result = run.fresh("old", dtype)
        own = {
            **operands,
            "dst": Operand(_neighbour(dst, lane), dst.span),
            "values": Operand((value,), given.span),
            "result": Operand(result, call.span),
        }
        run.emit(Do(OpRecord("atomic", call.span, call.callee_span, own, run.context, call.callee)))
        run.emit(Store(old, (lane,), result, call.span, run.context))
    return X.BufferLoad(old.var, [X.Ramp(X.const(0, "int32"), X.const(1, "int32"), lanes)])


def _neighbour(first: Region, lane: int) -> Region:
    """The element `lane` places behind `first` in the last dimension."""
    assert first.indices is not None  # an element
    *outer, last = first.indices
    at = Index(binary(ast.Add, last.start, lane) if lane else last.start, None, last.span)
    return Region(first.buffer, (*outer, at), first.span)


def _element(run: Run, call: Bound, name: str, dst: Region, lanes: int) -> Region | Unknown:
    """The one element that a number goes to, the first of `lanes` that as many go to."""
    if dst.is_point:
        return dst
    if all(as_int(e) == 1 for e in dst.extents) or (lanes > 1 and slice_length(dst) == lanes):
        points = tuple(Index(start, None, dst.span) for start in dst.starts)
        return Region(dst.buffer, points, dst.span)
    what = (
        f"`{dst.text()}` is a tile, but the value is a number; name one element, as in {dst.buffer.name}[i]"
    )
    return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)


def _order(run: Run, kind: str, call: Bound) -> str | Unknown:
    value = call.value("memory_order", "seq_cst" if kind in _LEGAL else None)
    if isinstance(value, Unknown):
        return value
    legal = _LEGAL.get(kind, _ORDERS)
    if value is None:
        return RELAXED
    if value in legal:
        return str(value)
    what = f"memory_order is one of {', '.join(legal)}, not {value!r}"
    return run.report(BAD_ARGUMENTS, call.span_of("memory_order"), callee=call.callee, what=what)


def _value(run: Run, kind: str, lanes: int, call: Bound, dst: Any) -> Any:
    """A tile, or a list with one number per element; Unknown if it is not known."""
    if kind == "load":
        return []
    name = "src" if kind == "store" else "value"
    value, span = call.value(name), call.span_of(name)
    if lanes > 1:
        return _neighbours(run, call, lanes, value)
    if kind in ("add", "max", "min"):
        tile = value.region if isinstance(value, Late) else value
        if isinstance(tile, Buffer) and tile.scope != "local.var":
            return Region(tile, None, span)
        if isinstance(tile, Region) and (not tile.is_point or _is_tile(dst)):
            return tile
    number = scalar(run, value, span)
    if isinstance(number, Unknown):
        return number
    if not isinstance(number, ir.Expr | bool | int | float):
        what = f"`{name}` must be a number, not {named_type(number)}"
        return run.report(BAD_ARGUMENTS, span, callee=call.callee, what=what)
    if not isinstance(dst, Region):
        return [number]
    note_unfit(run, number, dst.buffer, span)
    return [representable(number, dst.buffer)]


def _is_tile(dst: Any) -> bool:
    return isinstance(dst, Region) and not dst.is_point and any(as_int(e) != 1 for e in dst.extents)


def _neighbours(run: Run, call: Bound, lanes: int, value: Any) -> Region | Unknown:
    """The first of `lanes` elements of a buffer along its last dimension."""
    if isinstance(value, Late):
        value = value.region
    span = call.span_of("value")
    if isinstance(value, Unknown):
        return value
    if isinstance(value, Buffer):
        zero = tuple(Index(0, None, span) for _ in value.shape)
        return Region(value, zero, span)
    if isinstance(value, Region):
        points = tuple(Index(start, None, value.span) for start in value.starts)
        return value if value.is_point else Region(value.buffer, points, value.span)
    kind = named_type(value)
    what = f"`value` must be the first of {lanes} neighbouring elements, as in x[i], not {kind}"
    return run.report(BAD_ARGUMENTS, span, callee=call.callee, what=what)
