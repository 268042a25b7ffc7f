"""Names of TVM's own script: nodes of expressions, declarations, barriers, as what the language has."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Argument, Bound
from tilelang.frontend.dtypes import is_float, read_dtype
from tilelang.frontend.model import BufferData
from tilelang.frontend.names import store_element
from tilelang.frontend.operations.allocations import allocate
from tilelang.frontend.operations.builder_values import BUILDER_VALUES
from tilelang.frontend.operations.debug_calls import device_assert
from tilelang.frontend.operations.extern_calls import EXTERN_CALLS
from tilelang.frontend.operations.intrinsics import maximum, minimum
from tilelang.frontend.operations.set_bits import nth_set_bit
from tilelang.frontend.operations.thread_calls import THREAD_CALLS, exchange
from tilelang.frontend.operations.thread_tags import env_thread
from tilelang.frontend.operators import (
    as_bool,
    binary,
    cast,
    compare,
    conjunction,
    constant,
    disjunction,
    fold,
    literal,
    match,
    negate,
)
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_unknown, named_type, read_element, scalar
from tilelang.frontend.tensors import view
from tilelang.ir.build import POINTERS
from tilelang.ir.values import Buffer, Index, Region, Unknown
from tilelang.language.builders import (
    is_f8f6f4_family,
    is_float4,
    is_float4_e2m1_unpacked,
    is_float4_e2m1fn,
)
from tilelang.language.dtypes import DType

_FLOATS = ("float8_e4m3fn", "float8_e5m2", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn")


def _on_numbers(make: Callable[..., Any]) -> Callable[[Run, Bound], Any]:
    """A node of an expression: `make` on its operands."""

    def node(run: Run, call: Bound) -> Any:
        names = list(call.arguments)
        values = [scalar(run, call.value(n), call.span_of(n)) for n in names]
        lost = any_unknown(values)
        if lost is not None:
            return lost
        for name, value in zip(names, values, strict=True):
            if not isinstance(value, ir.Expr | bool | int | float):
                what = f"`{name}` must be a number, not {named_type(value)}"
                return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)
        try:
            return fold(make(*values))
        except (TypeError, ValueError, ZeroDivisionError, OverflowError) as error:
            return run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=str(error))

    return node


def _literal(run: Run, call: Bound) -> Any:
    """`T.IntImm(dtype, value)` and `T.FloatImm(dtype, value)`."""
    dtype, value = read_dtype(run, call.value("dtype"), call.span_of("dtype")), call.value("value")
    lost = any_unknown([dtype, value])
    if lost is not None:
        return lost
    if not isinstance(value, bool | int | float):
        what = f"`value` must be a number known at compile time, not {named_type(value)}"
        return run.report(BAD_ARGUMENTS, call.span_of("value"), callee=call.callee, what=what)
    return constant(value, str(dtype))


def _text(run: Run, call: Bound) -> Any:
    value = call.value("value")
    if isinstance(value, str | Unknown):
        return value
    what = f"`value` must be a text, not {named_type(value)}"
    return run.report(BAD_ARGUMENTS, call.span_of("value"), callee=call.callee, what=what)


def _element(run: Run, call: Bound) -> Region | Unknown:
    """The element that `buffer` and `indices` name."""
    buffer, indices = call.value("buffer"), call.value("indices")
    if isinstance(buffer, Unknown) or isinstance(indices, Unknown):
        run.complete = False
        return buffer if isinstance(buffer, Unknown) else indices
    if not isinstance(buffer, Buffer):
        what = f"`buffer` must be a buffer, not {named_type(buffer)}"
        return run.report(BAD_ARGUMENTS, call.span_of("buffer"), callee=call.callee, what=what)
    given = list(indices) if isinstance(indices, list | tuple) else [indices]
    at = call.span_of("indices")
    if len(given) != len(buffer.shape):
        what = f"`{buffer.name}` has {len(buffer.shape)} dimensions but there are {len(given)} indices"
        return run.report(BAD_ARGUMENTS, at, callee=call.callee, what=what)
    return Region(buffer, tuple(Index(scalar(run, i, at), None, at) for i in given), call.span)


def _load(run: Run, call: Bound) -> Any:
    place = _element(run, call)
    return place if isinstance(place, Unknown) else read_element(run, place)


def _store(run: Run, call: Bound) -> None:
    place = _element(run, call)
    value = scalar(run, call.value("value"), call.span_of("value"))
    if not isinstance(place, Unknown):
        store_element(run, place, value, call.span)


def _bind(run: Run, call: Bound) -> Any:
    return scalar(run, call.value("value"), call.span_of("value"))


def _nothing(run: Run, call: Bound) -> None:
    """A hint that this compiler has nothing to do for."""


def _with(call: Bound, **values: Any) -> Bound:
    """The same call with other arguments."""
    return replace(
        call, arguments={**call.arguments, **{n: Argument(v, call.span) for n, v in values.items()}}
    )


_SCOPES = {"shared.dyn": "shared", **{s: s for s in ("shared", "local", "local.fragment", "global")}}


def _allocate(run: Run, call: Bound) -> Any:
    scope, dtype = call.value("scope", "global"), call.value("dtype", "float32")
    if isinstance(scope, Unknown):
        run.complete = False
        return scope
    if scope not in _SCOPES:
        what = f"`scope` is one of {', '.join(map(repr, _SCOPES))}, not {scope!r}"
        return run.report(BAD_ARGUMENTS, call.span_of("scope"), callee=call.callee, what=what)
    return allocate(run, _SCOPES[scope], _with(call, dtype=dtype))


def _match_buffer(run: Run, call: Bound) -> Any:
    """The tensor that a handle stands for. The first one is the parameter itself, declared as by T.Tensor:
    what is passed must have its shape, and sizes are read from it.
    """
    handle = call.value("param")
    first = isinstance(handle, Buffer) and handle.is_pointer and not handle.made
    tensor = EXTERN_CALLS["make_tensor"](run, _with(call, ptr=handle))
    if first and tensor is handle:
        names = [n for n in str(run.attrs.get(POINTERS, "")).split() if n != handle.name]
        if names:
            run.attrs[POINTERS] = " ".join(names)
        else:
            run.attrs.pop(POINTERS, None)
    return tensor


def _storage_sync(run: Run, call: Bound) -> Any:
    scope = call.value("storage_scope")
    if isinstance(scope, Unknown):
        run.complete = False
        return None
    if scope not in ("shared", "shared.dyn", "warp"):
        what = f'`storage_scope` is "shared", "shared.dyn" or "warp", not {scope!r}'
        return run.report(BAD_ARGUMENTS, call.span_of("storage_scope"), callee=call.callee, what=what)
    plain = replace(call, arguments={})
    return THREAD_CALLS["sync_warp" if scope == "warp" else "sync_threads"](run, plain)


def _active(run: Run, call: Bound) -> Any:
    mask = THREAD_CALLS["activemask"](run, call)
    return mask if isinstance(mask, Unknown) else cast("uint32", mask)


def _nth_bit(run: Run, call: Bound) -> Any:
    if run.launch is None:
        what = "stands outside `with T.Kernel(...)`"
        return run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)
    names = ("mask", "base", "offset")
    values = [scalar(run, call.value(n), call.span_of(n)) for n in names]
    for name, value in zip(names, values, strict=True):
        if not isinstance(value, ir.Expr | int | Unknown):
            what = f"`{name}` must be an integer, not {named_type(value)}"
            return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)
    mask, base, offset = values
    return nth_set_bit(run, mask, base, offset, call.span)


def _about_dtype(question: Callable[[Any], bool]) -> Callable[[Run, Bound], Any]:
    def ask(run: Run, call: Bound) -> Any:
        dtype = read_dtype(run, call.value("value"), call.span_of("value"))
        return dtype if isinstance(dtype, Unknown) else question(dtype)

    return ask


def _dtype(run: Run, call: Bound) -> Any:
    dtype = read_dtype(run, call.value("value"), call.span_of("value"))
    return dtype if isinstance(dtype, Unknown) else DType(dtype)


def _dtype_of_pointer(run: Run, call: Bound) -> Any:
    dtype = read_dtype(run, call.value("dtype"), call.span_of("dtype"))
    return dtype if isinstance(dtype, Unknown) else DType(dtype)


def _validate_operands(run: Run, call: Bound) -> None:
    a, b = (read_dtype(run, call.value(n), call.span_of(n)) for n in ("a_dtype", "b_dtype"))
    if isinstance(a, Unknown) or isinstance(b, Unknown) or a == b or call.value("a_in_tmem", False):
        return
    if not (call.value("allow_f8f6f4_mixed", False) and a in _FLOATS and b in _FLOATS):
        what = f"A is {a}, B is {b}; a gemm needs one dtype for both"
        run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)


def _behind(run: Run, call: Bound) -> Buffer | Unknown:
    """The buffer whose memory an argument `data` is, given as `A.data` or as A itself."""
    value = call.value("data")
    if isinstance(value, BufferData):
        run.complete = value.was_complete
        return value.buffer
    if isinstance(value, Buffer | Unknown):
        run.complete = run.complete and not isinstance(value, Unknown)
        return value
    what = f"`data` must be the memory of a buffer, as A.data, not {named_type(value)}"
    return run.report(BAD_ARGUMENTS, call.span_of("data"), callee=call.callee, what=what)


def _pointer(run: Run, call: Bound) -> Any:
    buffer = _behind(run, call)
    if isinstance(buffer, Unknown):
        return buffer
    element = call.value("ptype")
    if not isinstance(element, Unknown) and str(element) != str(buffer.dtype) and buffer.known:
        what = f"`{buffer.name}` holds {buffer.dtype}, not {element}; view it with T.view"
        return run.report(BAD_ARGUMENTS, call.span_of("ptype"), callee=call.callee, what=what)
    kinds: dict[Any, str] = {1: "r", 2: "w", 3: "rw"}
    mode = call.value("rw_mask")
    if not isinstance(mode, Unknown) and mode not in kinds:
        what = f"`rw_mask` is 1 to read, 2 to write or 3 for both, not {mode!r}"
        return run.report(BAD_ARGUMENTS, call.span_of("rw_mask"), callee=call.callee, what=what)
    return EXTERN_CALLS["access_ptr"](
        run, _with(call, base=buffer, access_type=kinds.get(mode, "rw"), offset=call.value("offset"))
    )


def _assert(run: Run, call: Bound) -> None:
    """Each thread checks; the block of a `with` follows."""
    if run.launch is None:
        what = "stands outside `with T.Kernel(...)`"
        run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)
        return
    message = call.value("message")
    condition = scalar(run, call.value("condition"), call.span_of("condition"))
    text = message if isinstance(message, str) else ""
    device_assert(run, condition, text, call.span_of("condition"), call.span)


def _declare(run: Run, call: Bound) -> Any:
    if call.value("data") is None:
        return _allocate(run, call)
    buffer = _behind(run, call)
    if isinstance(buffer, Unknown):
        return buffer
    dtype = call.value("dtype", "float32")
    return view(run, _with(call, src=buffer, shape=call.value("shape"), dtype=dtype))


def _divided(a: Any, b: Any) -> Any:
    return _truncated(X.truncdiv, ast.Div, a, b)


def _remainder(a: Any, b: Any) -> Any:
    return _truncated(X.truncmod, ast.Mod, a, b)


def _truncated(make: Callable[[Any, Any], Any], of_floats: type[ast.operator], a: Any, b: Any) -> Any:
    """C's division: of integers towards 0."""
    if not isinstance(a, ir.Expr) and not isinstance(b, ir.Expr):
        a = literal(a)
    a, b, dtype = match(a, b)
    return binary(of_floats, a, b) if is_float(dtype) else make(a, b)


BUILDER_CALLS: Mapping[str, Callable[[Run, Bound], Any]] = {
    **BUILDER_VALUES,
    "env_thread": env_thread,
    "Add": _on_numbers(lambda a, b: binary(ast.Add, a, b)),
    "Sub": _on_numbers(lambda a, b: binary(ast.Sub, a, b)),
    "Mul": _on_numbers(lambda a, b: binary(ast.Mult, a, b)),
    "Div": _on_numbers(_divided),
    "Mod": _on_numbers(_remainder),
    "FloorDiv": _on_numbers(lambda a, b: binary(ast.FloorDiv, a, b)),
    "FloorMod": _on_numbers(lambda a, b: binary(ast.Mod, a, b)),
    "Max": _on_numbers(maximum),
    "Min": _on_numbers(minimum),
    "EQ": _on_numbers(lambda a, b: compare(ast.Eq, a, b)),
    "NE": _on_numbers(lambda a, b: compare(ast.NotEq, a, b)),
    "LT": _on_numbers(lambda a, b: compare(ast.Lt, a, b)),
    "LE": _on_numbers(lambda a, b: compare(ast.LtE, a, b)),
    "GT": _on_numbers(lambda a, b: compare(ast.Gt, a, b)),
    "GE": _on_numbers(lambda a, b: compare(ast.GtE, a, b)),
    "And": _on_numbers(conjunction),
    "Or": _on_numbers(disjunction),
    "Not": _on_numbers(negate),
    "IntImm": _literal,
    "FloatImm": _literal,
    "StringImm": _text,
    "boolean": _on_numbers(lambda x: as_bool(x) if isinstance(x, ir.Expr) else bool(x)),
    "BufferLoad": _load,
    "buffer_store": _store,
    "bind": _bind,
    "ignore_loop_partition": _on_numbers(lambda x: x),
    "tvm_thread_invariant": _on_numbers(lambda x: x),
    "func_attr": _nothing,
    "alloc_buffer": _allocate,
    "sblock_alloc_buffer": _allocate,
    "allocate": _allocate,
    "match_buffer": _match_buffer,
    "tvm_storage_sync": _storage_sync,
    "tvm_warp_shuffle": exchange("tl.shfl_sync", ("value", "warp_id", "width", "mask"), None),
    "tvm_warp_shuffle_up": exchange("tl.shfl_up", ("value", "offset", "width", "mask"), None),
    "tvm_warp_shuffle_down": exchange("tl.shfl_down", ("value", "offset", "width", "mask"), None),
    "tvm_warp_activemask": _active,
    "__fns": _nth_bit,
    "is_float4": _about_dtype(is_float4),
    "is_float4_e2m1fn": _about_dtype(is_float4_e2m1fn),
    "is_f8f6f4_family": _about_dtype(is_f8f6f4_family),
    "get_tvm_dtype": _dtype,
    "is_float4_e2m1_unpacked": _about_dtype(is_float4_e2m1_unpacked),
    "validate_gemm_ab_dtypes": _validate_operands,
    "meta_var": lambda run, call: call.value("value"),
    "type_annotation": _dtype_of_pointer,
    "tvm_access_ptr": _pointer,
    "Assert": _assert,
    "decl_buffer": _declare,
}
