"""Whether a floating-point expression surely has no fraction: it was rounded, or made from integers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tilelang.ir.evaluate import is_choice

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip

_ROUNDS = frozenset({"floor", "ceil", "trunc", "nearbyint", "round", "rint"})
_EXTREMES = frozenset({"max_nan", "min_nan"})  # T.clamp keeps NaN
_KEEPS = (X.Add, X.Sub, X.Mul, X.Min, X.Max)


def is_whole(value: Any, names: Mapping[ir.Var, ir.Expr] = MappingProxyType({})) -> bool:
    """`names`: what variables of the kernel stand for."""
    if isinstance(value, bool | int):
        return True
    if isinstance(value, float):
        return value.is_integer()
    if isinstance(value, X.FloatImm):
        return float(value.value).is_integer()
    if isinstance(value, ir.Var):
        return value in names and is_whole(names[value], names)
    if isinstance(value, X.Cast):
        inner = value.value
        return "float" not in str(inner.ty) or is_whole(inner, names)
    if isinstance(value, _KEEPS):
        return is_whole(value.a, names) and is_whole(value.b, names)
    if isinstance(value, X.Select):
        return is_whole(value.true_value, names) and is_whole(value.false_value, names)
    if is_choice(value):
        return all(is_whole(v, names) for v in value.args[1:])
    if isinstance(value, ir.Call) and isinstance(value.op, ir.Op):
        name = str(value.op.name).rpartition(".")[2]
        return name in _ROUNDS or (name in _EXTREMES and all(is_whole(v, names) for v in value.args))
    return False
