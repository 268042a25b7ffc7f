"""Comparisons that TVM's LLVM emission gets wrong, written in other words.

In:  a lowered function.
Out: the same, where `a == b` and `a != b` of two bools compare integers, `a != b` of floats is
     `not (a == b)`, and the larger or smaller of two floats is the number where one of them is NaN.
Why: TVM's LLVM emission compares everything that is no integer as floats, bools too, and LLVM refuses that.
     And its `!=` of floats is false where one is NaN (LLVM's `one`), so that `x != x` would find none;
     its `max(a, b)` is `a > b ? a : b`, NaN or not by the order of the two, where GPUs and the reference
     agree on the number.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx as X

from tvm_ffi import structural_map  # isort: skip


def compare_exactly(func: X.PrimFunc) -> X.PrimFunc:
    """Apply the pass."""
    body = structural_map(func.body, ((X.EQ, X.NE), _rewritten))
    return func.with_body(structural_map(body, ((X.Max, X.Min), _number_wins)))


def _rewritten(node: Any) -> Any:
    dtype = str(node.a.ty.dtype)
    if dtype.startswith("bool"):
        wide = dtype.replace("bool", "int8")
        return type(node)(X.Cast(wide, node.a), X.Cast(wide, node.b), node.span)
    if isinstance(node, X.NE) and "float" in dtype:
        return X.Not(X.EQ(node.a, node.b, node.span), node.span)
    return node


def _number_wins(node: Any) -> Any:
    dtype = str(node.a.ty.dtype)
    if "float" not in dtype or isinstance(node.b, X.FloatImm):
        return node  # where a is NaN, b it is
    if isinstance(node.a, X.FloatImm):
        return type(node)(node.b, node.a, node.span)
    name = "llvm.maxnum" if isinstance(node, X.Max) else "llvm.minnum"
    return X.call_llvm_pure_intrin(dtype, name, node.a, node.b, span=node.span)
