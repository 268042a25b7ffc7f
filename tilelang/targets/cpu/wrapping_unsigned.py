"""Unsigned sums, differences and products that wrap, as they do on GPUs and in C.

In:  a lowered function.
Out: the same, where unsigned arithmetic of 32 and 64 bits is carried out in twice the width and cut.
Why: TVM tells LLVM that unsigned arithmetic never wraps (`add nuw`). A hash or a random number that wraps is
     then undefined: `x * 4 // 4` became `x`. LLVM makes one plain instruction of the wide form.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx as X

from tvm_ffi import structural_map  # isort: skip

_TWICE = {"uint32": "uint64", "uint64": "uint128"}


def wrap_unsigned(func: X.PrimFunc) -> X.PrimFunc:
    """`func` with its unsigned arithmetic free to wrap."""
    return func.with_body(structural_map(func.body, ((X.Add, X.Sub, X.Mul), _wide)))


def _wide(node: Any) -> Any:
    dtype = str(node.ty)
    element, cross, lanes = dtype.partition("x")
    if element not in _TWICE:
        return node
    wide = _TWICE[element] + cross + lanes
    a, b = X.Cast(wide, node.a), node.b
    if isinstance(node, X.Sub):  # a + ~b + 1: the difference itself could be negative
        value = X.Add(X.Add(a, X.Cast(wide, X.bitwise_not(b))), X.Cast(wide, X.const(1, dtype)))
    else:
        value = type(node)(a, X.Cast(wide, b))
    return X.Cast(dtype, value, node.span)
