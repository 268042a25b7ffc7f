"""Index expressions as sums of variables with integer coefficients, where they are that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilelang.ir.values import Value, as_int

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip

Ranges = Mapping[ir.Var, tuple[Value, Value]]  # first value and extent


@dataclass(frozen=True, eq=False)
class Affine:
    """constant + Σ coefficient · variable."""

    terms: Mapping[ir.Var, int]
    constant: int

    @property
    def variables(self) -> tuple[ir.Var, ...]:
        return tuple(self.terms)

    @property
    def looks_back(self) -> bool:
        """Whether it begins before 0, by less than its largest step: `bx * 64 - 1`, the element before."""
        return -max(self.terms.values(), default=0) < self.constant < 0

    def coefficient(self, var: ir.Var) -> int:
        return self.terms.get(var, 0)


def affine(value: Value) -> Affine | None:
    """The affine form of an integer expression, None if it is not one."""
    number = as_int(value)
    if number is not None:
        return Affine({}, number)
    if isinstance(value, ir.Var):
        return Affine({value: 1}, 0)
    if isinstance(value, X.Cast):
        return affine(value.value)
    if isinstance(value, X.Add | X.Sub):
        left, right = affine(value.a), affine(value.b)
        if left is None or right is None:
            return None
        return _sum(left, right, 1 if isinstance(value, X.Add) else -1)
    if isinstance(value, X.Mul):
        left, right = affine(value.a), affine(value.b)
        if left is None or right is None or (left.terms and right.terms):
            return None
        factor, rest = (left.constant, right) if not left.terms else (right.constant, left)
        return Affine({v: c * factor for v, c in rest.terms.items() if c * factor}, rest.constant * factor)
    return None


def _sum(a: Affine, b: Affine, sign: int) -> Affine:
    terms = dict(a.terms)
    for var, coefficient in b.terms.items():
        terms[var] = terms.get(var, 0) + sign * coefficient
    return Affine({v: c for v, c in terms.items() if c}, a.constant + sign * b.constant)


def always_inside(ranges: Ranges, start: Value, extent: Value, size: Value) -> bool:
    """Whether [start, start + extent) lies in a dimension, for the common case of affine starts with constant
    ranges: by interval arithmetic on plain numbers.
    """
    form, n, d = affine(start), as_int(extent), as_int(size)
    if form is None or n is None or d is None:
        return False
    low = high = form.constant
    for var, coefficient in form.terms.items():
        first, count = (as_int(v) for v in ranges.get(var, (None, None)))
        if first is None or count is None:
            return False
        ends = coefficient * first, coefficient * (first + count - 1)
        low, high = low + min(ends), high + max(ends)
    return low >= 0 and high + n <= d
