"""Intervals of integer expressions: where C's `/` and `%` floor, where 32 bits suffice."""

from __future__ import annotations

import math
from typing import Any

from tvm import ir
from tvm import tirx as X

Interval = tuple[float, float]  # both ends inclusive; infinite where unknown

EVERYTHING: Interval = (-math.inf, math.inf)
_UNSIGNED: Interval = (0, math.inf)


class Bounds:
    """Remembers the ranges of variables and answers for expressions over them; wide where unsure."""

    def __init__(self) -> None:
        self._vars: dict[int, Interval] = {}

    def set(self, var: ir.Var, interval: Interval) -> None:
        """`var` lies in `interval`."""
        self._vars[var.__chandle__()] = interval

    def non_negative(self, e: Any) -> bool:
        """Whether `e` is certainly at least zero (32-bit overflow of index arithmetic aside)."""
        return self.interval(e)[0] >= 0

    def interval(self, e: Any) -> Interval:
        """An interval that `e` certainly lies in."""
        kind = type(e)
        if kind is X.IntImm:
            return (e.value, e.value)
        if kind is ir.Var:
            found = self._vars.get(e.__chandle__())
            return found or (_UNSIGNED if _is_unsigned(e) else EVERYTHING)
        rule = _RULES.get(kind)
        if rule is not None:
            return _held(e, rule(self.interval(e.a), self.interval(e.b)))
        if kind is X.Cast:
            return _converted(self.interval(e.value), _range_of(e.value), _range_of(e))
        if kind is X.Select:
            return _hull(self.interval(e.true_value), self.interval(e.false_value))
        if kind is ir.Call and e.op.name == "prim.if_then_else":
            return _hull(self.interval(e.args[1]), self.interval(e.args[2]))
        return _UNSIGNED if _is_unsigned(e) else EVERYTHING


def _held(e: Any, found: Interval) -> Interval:
    """What is left of a result in its dtype: unsigned and narrow numbers wrap around.

    Signed numbers of 32 bits and more are taken not to overflow, as index arithmetic is.
    """
    low, high = _range_of(e)
    wraps = low == 0 or high < 1 << 16
    return (low, high) if wraps and not (low <= found[0] and found[1] <= high) else found


def _converted(value: Interval, source: Interval, target: Interval) -> Interval:
    """A number in another dtype: the same where that dtype has it, any number of the dtype otherwise."""
    low, high = max(value[0], source[0]), min(value[1], source[1])
    return (low, high) if target[0] <= low and high <= target[1] else target


def _range_of(e: Any) -> Interval:
    """The numbers that the dtype of an expression holds; everything for floats."""
    dtype = _dtype(e)
    if dtype == "bool":
        return 0, 1
    unsigned = dtype.startswith("uint")
    if not unsigned and not dtype.startswith("int"):
        return EVERYTHING
    width = dtype.removeprefix("u").removeprefix("int")
    if not width.isdigit():  # a vector
        return EVERYTHING
    bits = int(width)
    return (0, (1 << bits) - 1) if unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)


def _hull(a: Interval, b: Interval) -> Interval:
    return min(a[0], b[0]), max(a[1], b[1])


def _product(x: float, y: float) -> float:
    return 0 if x == 0 or y == 0 else x * y  # 0 · ∞ is 0 here: the other factor is some finite number


def _mul(a: Interval, b: Interval) -> Interval:
    ends = [_product(x, y) for x in a for y in b]
    return min(ends), max(ends)


def _floor_div(a: Interval, b: Interval) -> Interval:
    if b[0] <= 0:
        return EVERYTHING
    low = a[0] if math.isinf(a[0]) else a[0] // (b[0] if a[0] < 0 else b[1]) if a[0] < 0 else 0
    high = a[1] if math.isinf(a[1]) else a[1] // b[0] if a[1] >= 0 else -1
    return low, high


def _floor_mod(a: Interval, b: Interval) -> Interval:
    if b[0] <= 0:
        return EVERYTHING
    return 0, min(a[1], b[1] - 1) if a[0] >= 0 else b[1] - 1


def _trunc_mod(a: Interval, b: Interval) -> Interval:
    return _floor_mod(a, b) if a[0] >= 0 else EVERYTHING


def _bits(a: Interval, b: Interval) -> Interval:
    """or, xor of non-negative numbers: below the next power of two."""
    if a[0] < 0 or b[0] < 0:
        return EVERYTHING
    top = max(a[1], b[1])
    return 0, top if math.isinf(top) else (1 << int(top).bit_length()) - 1


def _and(a: Interval, b: Interval) -> Interval:
    tops = [x[1] for x in (a, b) if x[0] >= 0]
    return (0, min(tops)) if tops else EVERYTHING


def _shift_left(a: Interval, b: Interval) -> Interval:
    return _mul(a, (2 ** b[0], 2 ** b[1])) if b[0] >= 0 and b[1] < 64 else (min(0, a[0]), math.inf)


_RULES = {
    X.Add: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    X.Sub: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    X.Mul: _mul,
    X.FloorDiv: _floor_div,
    X.Div: lambda a, b: _floor_div(a, b) if a[0] >= 0 else EVERYTHING,
    X.FloorMod: _floor_mod,
    X.Mod: _trunc_mod,
    X.Min: lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    X.Max: lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    X.BitwiseAnd: _and,
    X.BitwiseOr: _bits,
    X.BitwiseXor: _bits,
    X.LShift: _shift_left,
    X.RShift: lambda a, b: (0, a[1]) if a[0] >= 0 else EVERYTHING,
}


def _dtype(e: Any) -> str:
    return str(getattr(e.ty, "dtype", "")) if hasattr(e, "ty") else ""


def _is_unsigned(e: Any) -> bool:
    return _dtype(e).startswith("uint")
