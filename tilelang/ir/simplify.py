"""Simplification that keeps the numbers of a program: TVM's analyzer, given only what it is exact for.

The analyzer treats floats as reals (`x + c - c` becomes `x`, `x * 0` becomes `0`), which rounding, infinities
and NaN make wrong. Integers and conditions over integers are exact.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir
from tvm import tirx as X

# Where a float can enter an expression; operators only pass on what these bring.
_SOURCES = (X.FloatImm, X.Cast, ir.TensorLoad, ir.Call, ir.Var)


def computes_floats(value: ir.Expr) -> bool:
    """Whether a float is computed or read anywhere in `value`."""
    found: list[Any] = []
    tvm_ffi.structural_walk(value, ((_SOURCES, found.append),))
    return any(isinstance(node, X.FloatImm) or _is_float(node) for node in found)


def _is_float(node: ir.Expr) -> bool:
    return isinstance(node.ty, ir.PrimType) and "float" in str(node.ty)


def simplify(analyzer: Any, value: Any) -> Any:
    """`value` simplified by `analyzer`; parts that compute with floats stay as they are."""
    if not computes_floats(value):
        return analyzer.simplify(value)
    if isinstance(value, X.And | X.Or):
        return type(value)(simplify(analyzer, value.a), simplify(analyzer, value.b), value.span)
    if isinstance(value, X.Not):
        return X.Not(simplify(analyzer, value.a), value.span)
    return value
