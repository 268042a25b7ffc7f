"""Loop nests and region arithmetic that the CPU's tile-operation lowerings share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.ir.values import as_int

# Scope of arrays that a lowering makes for itself and indexes by constants only, so that LLVM keeps them in
# registers.
REGISTERS = "local.register"


def index(value: Any) -> Any:
    """An int32 expression of a Python integer; an expression as it is."""
    return X.const(value, "int32") if isinstance(value, int) else value


def is_zero(value: Any) -> bool:
    return as_int(value) == 0


def plus(a: Any, b: Any) -> Any:
    """`a + b` without adding a zero."""
    if is_zero(a):
        return b
    return a if is_zero(b) else a + b


def parallel(
    extents: Sequence[Any], body: Callable[[list[ir.Var]], Any], span: Any, names: str = "ijklmn"
) -> Any:
    """Independent nested loops of `extents` around `body(vars)`; iterations may run in any order."""
    loop_vars = [X.Var(names[d % len(names)], "int32") for d in range(len(extents))]
    stmt = body(loop_vars)
    for var, extent in reversed(list(zip(loop_vars, extents, strict=True))):
        stmt = X.For(var, index(0), index(extent), X.ForKind.PARALLEL, stmt, span=span)
    return stmt


def serial(name: str, extent: Any, body: Callable[[ir.Var], Any], span: Any) -> Any:
    """One loop from 0 to `extent` whose iterations run in order."""
    var = X.Var(name, "int32")
    return X.For(var, index(0), index(extent), X.ForKind.SERIAL, body(var), span=span)


def at(region: Any, offsets: Sequence[Any]) -> list[Any]:
    """The indices of the element `offsets` inside `region`; offsets of its trailing dimensions suffice."""
    ranges = list(region.region)
    pad = len(ranges) - len(offsets)
    return [shifted(r.min, 0 if d < pad else offsets[d - pad]) for d, r in enumerate(ranges)]


def wide(region: Any) -> list[int]:
    """The dimensions of `region` whose extent is not 1."""
    return [d for d, r in enumerate(region.region) if as_int(r.extent) != 1]


def cast(value: Any, dtype: str) -> Any:
    """`value` converted to `dtype`."""
    return value if str(value.ty.dtype) == dtype else X.Cast(dtype, value)


def lanes(start: Any, width: int) -> Any:
    """The vector index `start, start + 1, ...` of `width` elements; a scalar index for one."""
    return index(start) if width == 1 else X.Ramp(index(start), index(1), width)


def vector_dtype(dtype: str, width: int) -> str:
    """`float32x8`, or the scalar dtype for one lane."""
    return dtype if width == 1 else f"{dtype}x{width}"


def shifted(start: Any, offset: Any) -> Any:
    """`start + offset`, where the offset may be a vector index."""
    if isinstance(offset, X.Ramp):
        return X.Ramp(plus(start, offset.base), offset.stride, offset.lanes)
    return plus(start, offset)
