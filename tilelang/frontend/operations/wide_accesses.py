"""T.ldg128, T.stg128, T.lds64, T.sts64 and relatives: vectors read from and written to memory by one thread.

Only the frontend knows them: the tensor is looked at as one of 32-bit words (of the value's elements, for a
store), and a vector of neighbours is moved.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.arch.dtypes import dtype_info
from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Bound, as_region
from tilelang.frontend.operations.packed_pairs import vector_lanes
from tilelang.frontend.operators import as_bool, binary, cast, fold
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_unknown, as_index, dtype_of_expr, named_type, scalar
from tilelang.frontend.tensors import new_buffer
from tilelang.ir.tile_program import Access, Alloc, If, Store
from tilelang.ir.values import Buffer, Index, Region, Unknown

_WORD = 32  # bits of what a load gives


def _place(run: Run, call: Bound, name: str, scope: str) -> Region | Unknown:
    """Where the access begins."""
    value = as_region(run, call, name)
    if isinstance(value, Unknown):
        return value
    if not isinstance(value, Region) or value.buffer.scope != scope:
        memory = "a tensor in global memory" if scope == "global" else "a shared tile"
        found = f"`{value.buffer.name}`" if isinstance(value, Region) else named_type(value)
        what = f"`{name}` must be an element of {memory}, as in x[i], not {found}"
        return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)
    lost = any_unknown(list(value.starts))
    if lost is not None or not value.buffer.known or not value.fits_rank:
        run.complete = False
        return lost or Unknown(f"the shape or dtype of `{value.buffer.name}` is not known")
    if value.buffer.strides is not None and value.buffer.view_of is None and value.buffer.role is not None:
        what = f"`{value.buffer.name}` has strides; its elements need not be neighbours"
        return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)
    return value


def _as_elements(run: Run, call: Bound, place: Region, dtype: str, mode: Any) -> tuple[Buffer, Any]:
    """The same memory as a row of `dtype`, and the number of the element at which `place` begins."""
    buffer = place.buffer
    somewhere = tuple(Index(Unknown("neighbours of this element"), None, place.span) for _ in buffer.shape)
    run.accesses.append(Access(buffer, somewhere, mode, place.span, run.context))
    info, wanted = dtype_info(str(buffer.dtype)), dtype_info(dtype).bits
    held = info.bits * info.lanes if info.kind != "bool" else 8
    offset: Any = 0
    total: Any = 1
    for start, extent in zip(place.starts, buffer.shape, strict=True):
        offset = binary(ast.Add, binary(ast.Mult, offset, extent), start)
        total = binary(ast.Mult, total, extent)
    offset, total = _rescaled(offset, held, wanted), _rescaled(total, held, wanted)
    saved, run.binding_name = run.binding_name, (f"{buffer.name}_{dtype}", call.span)
    view = new_buffer(run, buffer.scope, (fold(total),), dtype, call.span, view_of=buffer)
    run.binding_name = saved
    run.emit(Alloc(view, call.span))
    return view, fold(offset)


def _rescaled(count: Any, held: int, wanted: int) -> Any:
    """`count` elements of `held` bits as a number of elements of `wanted` bits."""
    if held >= wanted:
        return binary(ast.Mult, count, held // wanted)
    return binary(ast.FloorDiv, count, wanted // held)


def _vector(view: Buffer, offset: Any, lanes: int) -> list[Any]:
    at = as_index(offset)
    return [at if lanes == 1 else X.Ramp(at, as_index(1), lanes)]


def _condition(run: Run, call: Bound) -> Any:
    """The predicate: None if there is none."""
    given = call.value("pred", None)
    if given is None:
        return None
    value = scalar(run, given, call.span_of("pred"))
    return value if isinstance(value, Unknown) else as_bool(value)


def _load(scope: str, width: int) -> Callable[[Run, Bound], Any]:
    def load(run: Run, call: Bound) -> Any:
        place, condition = _place(run, call, "src", scope), _condition(run, call)
        if isinstance(place, Unknown) or isinstance(condition, Unknown):
            run.complete = False
            return place if isinstance(place, Unknown) else condition
        view, offset = _as_elements(run, call, place, "uint32", "read")
        lanes = width // _WORD
        value = X.BufferLoad(view.var, _vector(view, offset, lanes))
        if condition is None:
            return value
        zero = X.const(0, "uint32")
        if lanes == 1:
            return X.if_then_else(condition, value, zero)
        return _read_where(run, call, condition, value, X.Broadcast(zero, lanes))

    return load


def _read_where(run: Run, call: Bound, condition: Any, value: Any, instead: Any) -> Any:
    """A vector in registers that is read in one access where `condition` holds."""
    saved, run.binding_name = (
        run.binding_name,
        (f"{(run.binding_name or ('words', None))[0]}_read", call.span),
    )
    made = new_buffer(run, "local", (1,), dtype_of_expr(value), call.span)
    run.binding_name = saved
    first = (X.const(0, "int32"),)
    run.emit(Alloc(made, call.span))
    run.emit(Store(made, first, instead, call.span, run.context))
    run.emit(If(condition, [Store(made, first, value, call.span, run.context)], [], call.span))
    return X.BufferLoad(made.var, list(first))


def _store(scope: str, width: int) -> Callable[[Run, Bound], Any]:
    def store(run: Run, call: Bound) -> Any:
        place, condition = _place(run, call, "dst", scope), _condition(run, call)
        value = scalar(run, call.value("value"), call.span_of("value"))
        if isinstance(place, Unknown) or any_unknown([condition, value]) is not None:
            run.complete = False
            return
        if isinstance(value, int | float) and width == _WORD:
            value = cast("float32" if isinstance(value, float) else "uint32", value)
        lanes = vector_lanes(value)
        found = dtype_info(dtype_of_expr(value)) if isinstance(value, ir.Expr) else None
        if found is None or found.bits * lanes != width:
            what = (
                f"`value` must have {width} bits, as uint32"
                f"{'' if width == _WORD else f'x{width // _WORD}'} has, not be "
                f"{named_type(value) if found is None else found.name}"
            )
            run.report(BAD_ARGUMENTS, call.span_of("value"), callee=call.callee, what=what)
            return
        element = found.name if lanes == 1 else found.name.rpartition("x")[0]
        view, offset = _as_elements(run, call, place, element, "write")
        stored = Store(view, tuple(_vector(view, offset, lanes)), value, call.span, run.context)
        run.emit(stored if condition is None else If(condition, [stored], [], call.span))

    return store


WIDE_ACCESSES: Mapping[str, Callable[[Run, Bound], Any]] = {
    **{f"ldg{n}": _load("global", n) for n in (32, 64, 128, 256)},
    **{f"stg{n}": _store("global", n) for n in (32, 64, 128, 256)},
    **{f"lds{n}": _load("shared", n) for n in (32, 64, 128)},
    **{f"sts{n}": _store("shared", n) for n in (32, 64, 128)},
}
