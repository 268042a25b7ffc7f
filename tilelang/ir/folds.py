"""Updates of a reducer, `acc[i] = acc[i] op x`, taken apart into what they are and what they fold in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import tvm_ffi
from tvm import ir
from tvm import tirx as X

FoldKind = Literal["sum", "max", "min", "bitand", "bitor", "bitxor"]

_NODES: dict[type, FoldKind] = {
    X.Add: "sum",
    X.Max: "max",
    X.Min: "min",
    X.BitwiseAnd: "bitand",
    X.BitwiseOr: "bitor",
    X.BitwiseXor: "bitxor",
}
# Folds of truth values, as bits: `or` and `and` would skip the exchange that all threads take part in.
_TRUTH: dict[type, FoldKind] = {X.Or: "bitor", X.And: "bitand", X.NE: "bitxor"}
_CALLS: dict[str, FoldKind] = {
    "bitwise_and": "bitand",
    "bitwise_or": "bitor",
    "bitwise_xor": "bitxor",
    "max": "max",
    "min": "min",
}


def fold_of(store: X.BufferStore) -> tuple[FoldKind, Any] | None:
    """Kind and operand of a store that folds a value into the element it writes; None for another store.

    `acc[i] -= x` is a sum of -x.
    """
    return fold_into(store.buffer, store.indices, str(store.buffer.dtype), store.value)


def fold_into(buffer: ir.Var, indices: Sequence[Any], dtype: str, value: Any) -> tuple[FoldKind, Any] | None:
    """The same of a value that is stored to an element of `buffer`, whose elements are `dtype`."""

    def is_own(part: Any) -> bool:
        return (
            isinstance(part, ir.TensorLoad)
            and part.source.same_as(buffer)
            and same_element(part.indices, indices)
        )

    if type(value) is X.Sub and is_own(value.a):
        return "sum", X.const(0, str(value.ty)) - value.b
    if isinstance(value, ir.Call) and isinstance(value.op, ir.Op):
        kind = _CALLS.get(str(value.op.name).rpartition(".")[2])
        sides = list(value.args)
    else:
        kind = (_TRUTH if dtype == "bool" else _NODES).get(type(value))
        sides = [value.a, value.b] if kind else []
    if kind is None or len(sides) != 2:
        return None
    return next(((kind, b) for a, b in (sides, reversed(sides)) if is_own(a)), None)


def same_element(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether indices, of which some may be Python numbers, are written alike."""
    pairs = ([X.const(i, "int32") if isinstance(i, int) else i for i in indices] for indices in (one, other))
    return all(tvm_ffi.structural_equal(a, b) for a, b in zip(*pairs, strict=True))


def identity(kind: str, dtype: str) -> Any:
    """The value of `dtype` that changes nothing when folded: what a fold of nothing gives.

    kind: one of `FoldKind`; of magnitudes, abssum or absmax.
    """
    real = "float" in dtype
    if kind == "max":
        return X.const(-math.inf, dtype) if real else X.min_value(dtype)
    if kind == "min":
        return X.const(math.inf, dtype) if real else X.max_value(dtype)
    if kind == "bitand" and not real:
        if dtype == "bool":
            return X.const(1, "bool")
        return X.const(-1, dtype) if dtype.startswith("int") else X.max_value(dtype)
    return X.const(0, dtype)
