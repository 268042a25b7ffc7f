"""T.add2 and relatives: arithmetic on packed pairs, elements of `float32x2` and slices of two neighbours."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.arch.dtypes import dtype_info
from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.diagnostics.span import Span
from tilelang.frontend.arguments import Bound
from tilelang.frontend.model import NamedSlice
from tilelang.frontend.operations.intrinsics import absolute, maximum, minimum
from tilelang.frontend.operators import binary
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import (
    any_unknown,
    dtype_of_expr,
    load_indices,
    named_type,
    read_element,
    scalar,
)
from tilelang.frontend.slices import slice_length
from tilelang.ir.tile_program import Access, Store
from tilelang.ir.values import Buffer, Region, Unknown

PAIRS = ("float16x2", "bfloat16x2", "float32x2")
_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "add2": lambda x, y: binary(ast.Add, x, y),
    "sub2": lambda x, y: binary(ast.Sub, x, y),
    "mul2": lambda x, y: binary(ast.Mult, x, y),
    "fma2": lambda x, y, z: binary(ast.Add, binary(ast.Mult, x, y), z),
    "max2": maximum,
    "min2": minimum,
    "abs2": absolute,
}


def is_packed_pair(op: str) -> bool:
    """Whether `op` is one of the operations here."""
    return op in _OPERATIONS


def packed_pair(run: Run, op: str, call: Bound) -> Any:
    """The pair that `T.add2(x, y)` and its kin compute."""
    names = list(call.arguments)
    values = [_pair(run, call.value(n), call.span_of(n)) for n in names]
    unknown = any_unknown(values)
    if unknown is not None:
        return unknown
    first = dtype_of_expr(values[0]) if isinstance(values[0], ir.Expr) else None
    for name, value in zip(names, values, strict=True):
        found = dtype_of_expr(value) if isinstance(value, ir.Expr) else named_type(value)
        if found not in PAIRS or found != first:
            wanted = first if first in PAIRS else "float16x2, bfloat16x2 or float32x2"
            what = (
                f"`{name}` is {found}, expected {wanted}: an element of a buffer of that dtype "
                f"(T.alloc_local, T.view), or two neighbours, as in x[i : i + 2]"
            )
            return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)
    return _OPERATIONS[op](*values)


def _pair(run: Run, value: Any, span: Span) -> Any:
    """The two elements of a slice as one vector; other values as scalars."""
    if isinstance(value, Region) and not isinstance(value, NamedSlice) and slice_length(value) == 2:
        return read_element(run, value)
    return scalar(run, value, span)


def stores_vector(place: Region, value: Any) -> bool:
    """Whether `B[i : i + 2] = value` stores a vector into as many neighbours."""
    if not isinstance(value, ir.Expr) or isinstance(place.buffer.dtype, Unknown):
        return False
    length = slice_length(place)
    return length is not None and length > 1 and length == vector_lanes(value)


def store_vector(run: Run, place: Region, value: Any) -> None:
    """Store a vector, whose elements are converted to the buffer's dtype."""
    run.accesses.append(Access(place.buffer, place.indices or (), "write", place.span, run.context))
    if any_unknown(place.starts) is not None or not place.buffer.known:
        run.complete = False
        return
    dtype = f"{place.buffer.dtype}x{vector_lanes(value)}"
    value = value if dtype_of_expr(value) == dtype else X.Cast(dtype, value)
    run.emit(Store(place.buffer, tuple(load_indices(place)), value, place.span, run.context))


def vector_lanes(value: Any) -> int:
    """How many elements a value, or an element of a buffer, has: 1 unless it is a vector."""
    try:
        return dtype_info(value.dtype if isinstance(value, Buffer) else dtype_of_expr(value)).lanes
    except (AttributeError, ValueError):  # a plain number, a pointer, an unknown dtype
        return 1
