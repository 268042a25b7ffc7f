"""Comparisons that TVM's LLVM emission gets wrong, written in other words.

In:  a lowered function.
Out: the same, where `a == b` and `a != b` of two bools compare integers, and `a != b` of floats is
     `not (a == b)`.
Why: TVM's LLVM emission compares everything that is no integer as floats, bools too, and LLVM refuses that.
     And its `!=` of floats is false where one is NaN (LLVM's `one`), so that `x != x` would find none.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx as X

from tvm_ffi import structural_map  # isort: skip


def compare_exactly(func: X.PrimFunc) -> X.PrimFunc:
    """Apply the pass."""
    return func.with_body(structural_map(func.body, ((X.EQ, X.NE), _rewritten)))


def _rewritten(node: Any) -> Any:
    dtype = str(node.a.ty.dtype)
    if dtype.startswith("bool"):
        wide = dtype.replace("bool", "int8")
        return type(node)(X.Cast(wide, node.a), X.Cast(wide, node.b), node.span)
    if isinstance(node, X.NE) and "float" in dtype:
        return X.Not(X.EQ(node.a, node.b, node.span), node.span)
    return node
