"""T.reduce_* on the CPU: partial results in vector lanes along the innermost dimension, rows otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tvm import tirx as X

from tilelang.arch.float_formats import float_format
from tilelang.ir.folds import identity
from tilelang.ir.tile_ops import seq
from tilelang.ir.values import as_int
from tilelang.ops.reduce import Reduce
from tilelang.targets.cpu.nests import (
    REGISTERS,
    cast,
    index,
    lanes,
    parallel,
    plus,
    serial,
    shifted,
    vector_dtype,
)

# Independent partial results: LLVM may not reorder a float reduction by itself, and two vectors hide the
# latency.
LANES = 32

_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda a, b: a + b,
    "abssum": lambda a, b: a + b,
    "max": X.Max,
    "absmax": X.Max,
    "min": X.Min,
    "bitand": lambda a, b: a & b,
    "bitor": lambda a, b: a | b,
    "bitxor": lambda a, b: a ^ b,
}


def _wide(dtype: str) -> str:
    """What partial results are kept in: float32 for floats of 16 bits and fewer, a byte for truth values."""
    if dtype == "bool":
        return "int8"
    narrow = dtype in ("float16", "bfloat16") or float_format(dtype) is not None
    return "float32" if narrow else dtype


def _nan_wins(combine: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`combine` of floats, but a NaN among the two is the result. Compared as integers, lane by lane."""

    def both(a: Any, b: Any) -> Any:
        return X.Select(_is_nan(a), a, X.Select(_is_nan(b), b, combine(a, b)))

    return both


def _is_nan(value: Any) -> Any:
    dtype = str(value.ty.dtype)
    base, _, lanes = dtype.partition("x")
    wide = base == "float64"
    bits, end = ("int64", 0x7FF0000000000000) if wide else ("int32", 0x7F800000)
    suffix = f"x{lanes}" if lanes else ""

    def constant(number: int) -> Any:
        scalar = X.const(number, bits)
        return X.Broadcast(scalar, int(lanes)) if lanes else scalar

    magnitude = X.reinterpret(f"{bits}{suffix}", value) & constant(2**63 - 1 if wide else 2**31 - 1)
    return X.GT(magnitude, constant(end))


def lower_reduce(op: Reduce, partial: Callable[[str, tuple[int, ...]], Any]) -> Any:
    """`dst = kind over dim of src`. `partial(dtype, shape)` gives scratch storage of the block.

    Half-precision results are accumulated in float32.
    """
    src, dst = op.src, op.dst
    extents = [r.extent for r in src.region]
    kept = [d for d in range(len(extents)) if d != op.dim]
    dst_dims = list(range(len(dst.region)))
    if len(dst_dims) == len(extents):  # dst keeps the folded dimension with extent 1
        dst_dims = kept
    out_dtype = str(dst.source.dtype)
    dtype = _wide(out_dtype)
    combine, start = _COMBINE[op.kind], identity(op.kind, dtype)
    if op.nan_propagate:
        combine = _nan_wins(combine)

    def element(outer: list[Any], folded: Any) -> Any:
        indices = [r.min for r in src.region]
        for d, var in zip(kept, outer, strict=True):
            indices[d] = plus(indices[d], var)
        indices[op.dim] = shifted(indices[op.dim], folded)
        width = LANES if isinstance(folded, X.Ramp) else 1
        value = cast(X.BufferLoad(src.source, indices), vector_dtype(dtype, width))
        return X.abs(value) if op.kind in ("absmax", "abssum") else value

    def target(outer: list[Any]) -> list[Any]:
        indices = [r.min for r in dst.region]
        steps = outer if len(dst_dims) == len(outer) else []  # a full fold of a vector leaves one element
        for d, var in zip(dst_dims, steps, strict=False):
            indices[d] = plus(indices[d], var)
        return indices

    def finish(outer: list[Any], value: Any) -> Any:
        if not op.clear:
            value = combine(cast(X.BufferLoad(dst.source, target(outer)), dtype), value)
        return X.BufferStore(dst.source, cast(value, out_dtype), target(outer), op.span)

    outer_extents = [extents[d] for d in kept]
    count = extents[op.dim]
    if op.dim == len(extents) - 1:
        row = _Row(combine, start, element, dtype, op.span)
        return parallel(outer_extents, lambda outer: row.fold(outer, count, finish), op.span)
    return _fold_rows(partial, start, combine, element, finish, outer_extents, count, dtype, op.span)


@dataclass(frozen=True)
class _Row:
    """Folds a contiguous run: LANES partial results in vectors, the rest one by one."""

    combine: Callable[[Any, Any], Any]
    start: Any
    element: Callable[[list[Any], Any], Any]
    dtype: str
    span: Any

    def fold(self, outer: list[Any], count: Any, finish: Callable[[list[Any], Any], Any]) -> Any:
        number = as_int(count)
        whole = number // LANES if number is not None else X.floordiv(count, index(LANES))
        rest = number % LANES if number is not None else X.floormod(count, index(LANES))
        acc = X.decl_buffer((LANES,), self.dtype, "acc", scope=REGISTERS)
        total = X.decl_buffer((1,), self.dtype, "total", scope=REGISTERS)
        every, first = lanes(0, LANES), [index(0)]
        stmts = [X.AllocBuffer(total, span=self.span), X.BufferStore(total, self.start, first, self.span)]
        if whole != 0:

            def step(r: Any) -> Any:
                value = self.element(outer, lanes(r * LANES, LANES))
                return X.BufferStore(acc, self.combine(X.BufferLoad(acc, [every]), value), [every], self.span)

            stmts += [
                X.AllocBuffer(acc, span=self.span),
                X.BufferStore(acc, X.Broadcast(self.start, LANES), [every], self.span),
                serial("r", whole, step, self.span),
                *self._tree(acc),
                X.BufferStore(total, X.BufferLoad(acc, first), first, self.span),
            ]
        if rest != 0:

            def tail(r: Any) -> Any:
                value = self.element(outer, plus(whole * LANES, r))
                return X.BufferStore(total, self.combine(X.BufferLoad(total, first), value), first, self.span)

            stmts.append(serial("r", rest, tail, self.span))
        return seq([*stmts, finish(outer, X.BufferLoad(total, first))])

    def _tree(self, acc: Any) -> Iterator[Any]:
        """Halve the lanes until one is left."""
        width = LANES // 2
        while width:
            low, high = lanes(0, width), lanes(width, width)
            value = self.combine(X.BufferLoad(acc, [low]), X.BufferLoad(acc, [high]))
            yield X.BufferStore(acc, value, [low], self.span)
            width //= 2


def _fold_rows(
    partial: Any,
    start: Any,
    combine: Any,
    element: Any,
    finish: Any,
    outer: list[Any],
    count: Any,
    dtype: str,
    span: Any,
) -> Any:
    """Fold an outer dimension: whole rows are combined, their innermost dimension stays contiguous."""
    sizes = tuple(as_int(e) for e in outer)
    acc = partial(dtype, sizes)
    first = parallel(outer, lambda v: X.BufferStore(acc, start, v, span), span)
    body = serial(
        "r",
        count,
        lambda r: parallel(
            outer,
            lambda v: X.BufferStore(acc, combine(X.BufferLoad(acc, v), element(v, r)), v, span),
            span,
        ),
        span,
    )
    return seq([first, body, parallel(outer, lambda v: finish(v, X.BufferLoad(acc, v)), span)])
