"""Conversions of two neighbouring elements at once, where a language has a function for them.

A loop `b[v] = half(a[v])` over registers then goes by twos. Compilers join some scalar conversions by
themselves; of 8-bit floats they convert each with an instruction of its own.
"""

from __future__ import annotations

from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.targets.emit.dialect import PairConversion
from tilelang.targets.emit.expressions import Expressions, Storage


def pair_conversion(e: Expressions, target: Storage, value: Any) -> PairConversion | None:
    """How to convert what `value` loads, if that is all it does, to elements of `target`, two by two."""
    if type(value) is not X.Cast or type(value.value) is not ir.TensorLoad:
        return None
    return e.dialect.pair_conversions.get((e.dtype(value.value), target.dtype))


def converted_in_pairs(e: Expressions, loop: Any) -> PairConversion | None:
    """How a loop that only converts neighbours in registers goes by twos; None where it does not."""
    store = loop.body
    by_twos = (
        int(loop.kind) == X.ForKind.UNROLLED
        and _constant(loop.min) == 0
        and (_constant(loop.extent) or 1) % 2 == 0
        and (loop.step is None or _constant(loop.step) == 1)
    )
    if not by_twos or type(store) is not X.BufferStore or len(store.indices) != 1:
        return None
    target = e.storage(store.buffer)
    found = pair_conversion(e, target, store.value)
    if found is None:
        return None
    source = e.storage(store.value.value.source)
    sides = ((target, store.indices[0]), (source, store.value.value.indices[0]))
    if not all(_pairs_in_registers(s, index, loop.loop_var) for s, index in sides):
        return None
    target.vector = source.vector = True  # aligned for whole pairs
    return found


def pair_store(pair: PairConversion, target: str, source: str) -> str:
    """The statement that converts the two elements from `source` on to those from `target` on."""
    read = pair.function.format(f"*(const {pair.source}*)&{source}")
    return f"*({pair.result}*)&{target} = {read};"


def is_even(index: Any) -> bool:
    """Whether an index is a multiple of two for any values of its variables."""
    value = _constant(index)
    if value is not None:
        return value % 2 == 0
    if type(index) in (X.Add, X.Sub):
        return is_even(index.a) and is_even(index.b)
    return type(index) is X.Mul and (is_even(index.a) or is_even(index.b))


def _pairs_in_registers(storage: Storage, index: Any, variable: Any) -> bool:
    """Whether the index is an even number and the variable, in an array of the thread's own."""
    if not storage.scope.startswith("local") or storage.scalar or storage.opaque:
        return False
    if type(index) is X.Add:
        for one, other in ((index.a, index.b), (index.b, index.a)):
            if one.same_as(variable):
                return is_even(other)
    return index.same_as(variable)


def _constant(value: Any) -> int | None:
    return int(value.value) if type(value) is X.IntImm else None
