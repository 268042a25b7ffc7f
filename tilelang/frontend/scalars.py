"""From frontend values to scalars of the kernel: reading elements, naming what was found, and its dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.problem import Edit, Fix
from tilelang.diagnostics.rules.python import TILE_AS_SCALAR
from tilelang.diagnostics.span import Span
from tilelang.frontend.model import Late, NamedSlice
from tilelang.frontend.run import Run
from tilelang.frontend.slices import is_slice, slice_length
from tilelang.ir.tile_program import Access, Bind
from tilelang.ir.values import Buffer, Index, Region, Unknown, as_int
from tilelang.ops.operands import shape_text

# What an author calls values that are objects of the frontend or of TVM.
_KINDS = {
    "Buffer": "tile",
    "Region": "part of a tile",
    "NamedSlice": "part of a tile",
    "DType": "dtype",
    "TensorType": "tensor type",
    "JitFunction": "kernel",
    "PrimFunction": "kernel",
    "Function": "function",
    "RecordFunction": "function",
    "ModuleValue": "module",
    "ClassValue": "class",
    "Instance": "object",
}


def named_type(value: Any) -> str:
    """`a str`, `an int`: how a message calls a Python value."""
    if value is None:
        return "None"
    if isinstance(value, ir.Expr):
        return "a value that the kernel computes"
    name = _KINDS.get(type(value).__name__) or type(value).__name__
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"


def is_traced(value: Any) -> bool:
    """Whether a value exists only when the kernel runs (or stands for memory of the kernel)."""
    return isinstance(value, ir.Expr | Buffer | Region | Late)


def any_traced(values: Any) -> bool:
    """Whether a value or, in tuples, lists and dicts, anything inside is traced."""
    if isinstance(values, tuple | list):
        return any(any_traced(v) for v in values)
    if isinstance(values, dict):
        return any(any_traced(v) for v in values.values())
    return is_traced(values)


def any_unknown(values: Any) -> Unknown | None:
    """The first Unknown in a value or in the tuples, lists and dicts inside it."""
    if isinstance(values, Unknown):
        return values
    if isinstance(values, tuple | list):
        return next((u for v in values if (u := any_unknown(v)) is not None), None)
    if isinstance(values, dict):
        return next((u for v in values.values() if (u := any_unknown(v)) is not None), None)
    return None


def scalar(run: Run, value: Any, span: Span, *, fixable: bool = True) -> Any:
    """`value` as a Python number, a TIRX expression or Unknown; reads an element where it is one of a
    buffer, the vector of a slice that has a name or is written with T.Ramp. A whole tile is a problem, which
    an index mends if `fixable`.
    """
    if isinstance(value, NamedSlice) and value.late is not None and not value.is_point:
        value = value.late
    if isinstance(value, Late):
        if value.value is None:
            load = read_element(run, value.region)
            if isinstance(load, Unknown):
                value.value = load
            else:
                var = run.fresh(value.name, dtype_of_expr(load))
                run.put_late(value, Bind(var, load, value.region.span))
                value.value = var
        return value.value
    if isinstance(value, Buffer):
        if value.scope == "local.var":
            zero = Index(0, None, span)
            return read_element(run, Region(value, (zero,), span))
        shape = shape_text(value.shape)
        fixes = _indexed(run, value, span) if fixable else ()
        return run.report(TILE_AS_SCALAR, span, fixes=fixes, operand=f"`{value.name}`", shape=shape)
    if isinstance(value, Region):
        if not value.is_point and not (is_slice(value) and value.indices and value.indices[-1].ramp):
            shape = shape_text(value.extents)
            return run.report(TILE_AS_SCALAR, span, operand=f"`{value.text()}`", shape=shape)
        return read_element(run, value)
    return plain_number(value)


def plain_number(value: Any) -> Any:
    """A number of numpy's as Python's; anything else as it is."""
    if isinstance(value, np.generic) and isinstance(found := value.item(), bool | int | float):
        return found
    return value


def _indexed(run: Run, buffer: Buffer, span: Span) -> tuple[Fix, ...]:
    """The only element of a tile, or the one of this iteration where T.Parallel walks all of the tile."""
    if run.text_of(span) != buffer.name or not buffer.shape:
        return ()
    sizes = [as_int(e) for e in buffer.shape]
    walked = [
        (v, as_int(low), as_int(extent))
        for loop in run.context.loops
        if loop.kind == "Parallel"
        for v, low, extent in zip(loop.vars, loop.mins, loop.extents, strict=True)
    ]
    if all(size == 1 for size in sizes):
        entries = ["0"] * len(sizes)
    elif [(low, extent) for _, low, extent in walked] == [(0, size) for size in sizes]:
        entries = [str(v.name) for v, _, _ in walked]
        if any(run.scope.names.get(n) is not v for n, (v, _, _) in zip(entries, walked, strict=True)):
            return ()
    else:
        return ()
    text = f"{buffer.name}[{', '.join(entries)}]"
    return (Fix(f"Write `{text}`", (Edit(span, text),)),)


def read_element(run: Run, region: Region) -> Any:
    """The load of one element, or of a slice as a vector, noted as an access."""
    buffer = region.buffer
    load = _load(run, region)
    node = None if isinstance(load, Unknown) else load
    run.accesses.append(Access(buffer, region.indices or (), "read", region.span, run.context, node))
    return load


def _load(run: Run, region: Region) -> Any:
    buffer = region.buffer
    if not buffer.known:
        return run.unknown(f"the shape or dtype of `{buffer.name}` is not known")
    bad = any_unknown(region.starts)
    if bad is not None:
        run.complete = False
        return bad
    if any(isinstance(i, int) and abs(i) >= 1 << 63 for i in region.starts):
        return run.unknown("an index that no integer type holds")
    return X.BufferLoad(buffer.var, load_indices(region))


def load_indices(region: Region) -> list[Any]:
    """The indices of a load or store of one element, or of all elements of a slice."""
    starts = [as_index(i) for i in region.starts]
    length = None if region.is_point else slice_length(region)
    return starts if length is None else [*starts[:-1], X.Ramp(starts[-1], as_index(1), length)]


def as_index(value: Any) -> Any:
    """A Python integer as a constant, int32 where that holds it; expressions unchanged."""
    if not isinstance(value, int):
        return value
    return X.IntImm("int32" if -(1 << 31) <= value < 1 << 31 else "int64", int(value))


def dtype_of_expr(value: ir.Expr) -> str:
    """The dtype of a TIRX expression, such as `float16`."""
    return str(value.ty)


def is_index_arithmetic(value: Any) -> bool:
    """Whether an expression is made of variables, constants and integer arithmetic only, and of few of them:
    cheap to repeat.
    """
    pending, seen = [value], 0
    while pending:
        part = pending.pop()
        kind = type(part).__name__
        seen += 1
        if kind in ("Var", "IntImm"):
            continue
        if kind not in _ARITHMETIC | _COMPARISONS or seen > _REPEATED_NODES:
            return False
        pending += [part.a, part.b]
    return True


_ARITHMETIC = frozenset({"Add", "Sub", "Mul", "FloorDiv", "FloorMod", "Min", "Max"})
_COMPARISONS = frozenset({"LT", "LE", "GT", "GE", "EQ", "NE", "And", "Or"})
_REPEATED_NODES = 64


def kept(run: Run, value: Any, name: str) -> Any:
    """A value that goes into a container or to another function: elements are kept late."""
    if isinstance(value, Region) and value.is_point:
        return run.late(value, name)
    return named_slice(run, value, name)


def named_slice(run: Run, value: Any, name: str) -> Any:
    """A slice as what a name is bound to; any other value as it is."""
    if isinstance(value, NamedSlice) or not is_slice(value):
        return value
    return NamedSlice(value.buffer, value.indices, value.span, run.late(value, name))
