"""Simplification that keeps the numbers of a program: TVM's analyzer, given only what it is exact for.

The analyzer treats floats as reals (`x + c - c` becomes `x`, `x * 0` becomes `0`), which rounding, infinities
and NaN make wrong, and unsigned integers as ones that never wrap (`x * 10 % 10` becomes `0`), which hashes
and random numbers do, and conversions as ones that keep the number, which `int8(200)` does not. Signed
integers and conditions over them are exact.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir
from tvm import tirx as X

from tilelang.ir.wrapping_casts import limits_of, may_wrap

# Where a float can enter an expression; operators only pass on what these bring.
_SOURCES = (X.FloatImm, X.Cast, ir.TensorLoad, ir.Call, ir.Var)
_WRAPPING = ("uint32", "uint64")


def _is_exact(analyzer: Any, value: ir.Expr) -> bool:
    """Whether the analyzer keeps the numbers of `value`: no float in it, nothing that may wrap."""
    found: list[Any] = []
    tvm_ffi.structural_walk(value, (((*_SOURCES, X.Add, X.Sub, X.Mul), found.append),))
    for node in found:
        if isinstance(node, X.FloatImm) or _is_float(node):
            return False
        if isinstance(node, X.Add | X.Sub | X.Mul) and str(node.ty).startswith(_WRAPPING):
            return False
        if isinstance(node, X.Cast) and may_wrap(node) and not _fits(analyzer, node):
            return False
    return True


def _fits(analyzer: Any, cast: X.Cast) -> bool:
    """Whether the number is known to be one of the dtype it is converted to."""
    if not _is_exact(analyzer, cast.value):
        return False
    bound, (low, high) = analyzer.const_int_bound(cast.value), limits_of(cast)
    return low <= bound.min_value and bound.max_value <= high


def _is_float(node: ir.Expr) -> bool:
    return isinstance(node.ty, ir.PrimType) and "float" in str(node.ty)


def simplify(analyzer: Any, value: Any) -> Any:
    """`value` simplified by `analyzer`; parts that compute with floats, or may wrap, stay as they are."""
    if _is_exact(analyzer, value):
        return analyzer.simplify(value)
    if isinstance(value, X.And | X.Or):
        return type(value)(simplify(analyzer, value.a), simplify(analyzer, value.b), value.span)
    if isinstance(value, X.Not):
        return X.Not(simplify(analyzer, value.a), value.span)
    return value
