"""Four products of neighbouring 8-bit numbers, added up: the dot product instruction of CUDA.

In:  a flat thread-level function.
Out: the same, with `c + a[i] * b[j] + ... + a[i + 3] * b[j + 3]` as one call of DP4A where a and b are int8
     in registers or shared memory and i and j multiples of 4. (nvcc finds it by itself, but takes
     the numbers apart and packs them again for it.) The sum is that of 32-bit integers, which wraps alike in
     any order.
Not: tensors, which may begin anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import ir, sym
from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.passes.walk import constant, index, remake

# (a 32-bit sum, the addresses of four int8 each) -> the sum with their products added
DP4A = "tl.cuda.dp4a"


@dataclass(frozen=True, eq=False)
class _Product:
    """`a[i] * b[j]` of two loads."""

    a: Any
    b: Any


def dot_of_four(func: X.PrimFunc) -> X.PrimFunc:
    """Apply the pass."""
    return func.with_body(_Dots().statement(func.body))


class _Dots:
    def __init__(self) -> None:
        self._analyzer = sym.Analyzer()

    def statement(self, stmt: Any) -> Any:
        if isinstance(stmt, X.For):
            self._analyzer.bind(stmt.loop_var, ir.Range.from_min_extent(stmt.min, stmt.extent), True)
        if isinstance(stmt, X.BufferStore) and str(stmt.buffer.dtype) == "int32":
            value = self._sum(stmt.value)
            return X.BufferStore(stmt.buffer, value, list(stmt.indices), stmt.span)
        return remake(stmt, self.statement)

    def _sum(self, value: Any) -> Any:
        """`value` with groups of four products in its sum done at once."""
        terms = _terms(value)
        products = [_product(t) for t in terms]
        made, k = None, 0
        while k < len(terms):
            four = products[k : k + 4]
            done = made is not None and self._neighbours(four)
            one = tile_ops.call(DP4A, [made, *_addresses(four[0])], dtype="int32") if done else terms[k]
            made = one if done or made is None else made + one
            k += 4 if done else 1
        return made

    def _neighbours(self, four: list[_Product | None]) -> bool:
        products = [p for p in four if p is not None]
        if len(products) < 4:
            return False
        return self._follow([p.a for p in products]) and self._follow([p.b for p in products])

    def _follow(self, loads: list[Any]) -> bool:
        """Whether these are four elements in a row of which the first is at a multiple of 4."""
        source, first = loads[0].source, index(loads[0].indices[0])
        if source.scope() != "local" and not source.scope().startswith("shared"):
            return False
        known = self._analyzer.modular_set(first)
        if int(known.coeff) % 4 or int(known.base) % 4:
            return False
        return all(
            load.source.same_as(source) and constant(self._analyzer.simplify(load.indices[0] - first)) == k
            for k, load in enumerate(loads)
        )


def _terms(value: Any) -> list[Any]:
    if type(value) is X.Add:
        return [*_terms(value.a), value.b]
    return [value]


def _product(term: Any) -> _Product | None:
    if type(term) is not X.Mul:
        return None
    a, b = _load(term.a), _load(term.b)
    return None if a is None or b is None else _Product(a, b)


def _load(factor: Any) -> Any:
    """The element of int8 that is converted to int32, None for anything else."""
    if type(factor) is not X.Cast or str(factor.ty.dtype) != "int32":
        return None
    value = factor.value
    plain = isinstance(value, ir.TensorLoad) and str(value.source.dtype) == "int8"
    return value if plain and not isinstance(value.indices[0], X.Ramp) else None


def _addresses(first: _Product | None) -> list[Any]:
    assert first is not None  # of four products
    return [X.address_of(first.a), X.address_of(first.b)]
