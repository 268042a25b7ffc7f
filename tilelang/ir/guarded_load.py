"""A load that stands alone, or under conditions outside of which the value is 0."""

from __future__ import annotations

from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.ir.evaluate import is_choice


def guarded_load(expr: Any) -> tuple[Any, Any]:
    """(load, condition) of a load that stands alone, or of `if_then_else(condition, load, 0)`, also nested;
    (None, None) else.
    """
    if isinstance(expr, ir.TensorLoad):
        return expr, None
    if is_choice(expr):
        condition, yes, no = expr.args
        zero = isinstance(no, X.IntImm | X.FloatImm) and no.value == 0
        load, inner = guarded_load(yes) if zero else (None, None)
        if load is not None:
            return load, condition if inner is None else X.And(condition, inner)
    return None, None
