"""Register numbers inside an unrolled loop: from a table over the loop's registers to an expression that
reproduces it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilelang.layout.fragment import prime_factors
from tilelang.passes.walk import index


@dataclass(frozen=True)
class Radix:
    """A variable with values below `extent`, and the expression that stands for it."""

    value: Any
    extent: int


def fit_digits(table: np.ndarray, valid: np.ndarray, variables: Sequence[Radix]) -> Any | None:
    """An expression over `variables` that equals `table[v0, v1, ...]` wherever `valid`; None if there is
    none.

    Searched among sums of (variable // a % b) · c, the form in which layouts are written; the result is
    checked on the whole table.
    """
    if not valid.any() or not valid.flat[0]:
        return None
    base = int(table.flat[0])
    total = np.full(table.shape, base)
    expression: Any = index(base)
    for axis, variable in enumerate(variables):
        terms = _terms(table, valid, axis, variable.extent, base)
        steps = np.arange(variable.extent)
        column = np.zeros(variable.extent, int)
        for stride, extent, factor in terms:
            column += steps // stride % extent * factor
            expression = _add(expression, _term(variable, stride, extent, factor))
        total = total + column.reshape([-1 if k == axis else 1 for k in range(table.ndim)])
    return expression if bool((total == table)[valid].all()) else None


def _terms(
    table: np.ndarray, valid: np.ndarray, axis: int, extent: int, base: int
) -> list[tuple[int, int, int]]:
    """(stride, extent, factor) for one variable, neighbouring digits merged."""
    terms: list[tuple[int, int, int]] = []
    stride = 1
    for prime in prime_factors(extent):
        at = tuple(stride if k == axis else 0 for k in range(table.ndim))
        factor = int(table[at]) - base if valid[at] else 0
        last = terms[-1] if terms else None
        if last and last[0] * last[1] == stride and last[2] * last[1] == factor:
            terms[-1] = (last[0], last[1] * prime, last[2])
        else:
            terms.append((stride, prime, factor))
        stride *= prime
    return [t for t in terms if t[2]]


def _term(variable: Radix, stride: int, extent: int, factor: int) -> Any:
    value = variable.value if stride == 1 else variable.value // stride
    if stride * extent < variable.extent:
        value = value % extent
    return value if factor == 1 else value * factor


def _add(a: Any, b: Any) -> Any:
    known = getattr(a, "value", None)
    return b if known == 0 else a + b
