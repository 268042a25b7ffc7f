"""What expressions are made of: what they read, what names in them stand for, the parts of a condition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilelang.ir.prove import free_vars, substitute
from tilelang.ir.values import Value

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip
from tvm_ffi import structural_walk  # isort: skip


def loads_of(value: object) -> list[ir.TensorLoad]:
    """All elements of memory that an expression reads."""
    found: list[ir.TensorLoad] = []
    if isinstance(value, ir.Expr):
        structural_walk(value, (ir.TensorLoad, found.append))
    return found


def without_casts(value: Value) -> Value:
    """What is converted, where an expression is a conversion."""
    while isinstance(value, X.Cast):
        value = value.value
    return value


def spelled_out(value: Value, names: Mapping[ir.Var, Value]) -> Value:
    """The expression without `names`, also those that stand in what others stand for."""
    for _ in names:  # none stands for itself, so each is replaced once at the most
        used = {v: names[v] for v in free_vars(value) if v in names}
        if not used:
            break
        value = substitute(value, used)
    return value


def conjuncts(condition: Value, negated: bool = False) -> Iterator[tuple[Value, bool]]:
    """The conditions that all hold where one does, or where it does not with `negated`; and of each whether
    the contrary is meant.
    """
    if isinstance(condition, X.Not):
        yield from conjuncts(condition.a, not negated)
    elif isinstance(condition, X.Or if negated else X.And):
        yield from conjuncts(condition.a, negated)
        yield from conjuncts(condition.b, negated)
    else:
        yield condition, negated
