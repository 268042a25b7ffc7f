"""Comparisons of truth values as comparisons of bytes.

In:  a lowered function.
Out: the same, where `a == b` and `a != b` of two bools compare integers.
Why: TVM's LLVM emission compares everything that is no integer as floats, bools too, and LLVM refuses that.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx as X

from tvm_ffi import structural_map  # isort: skip


def compare_bytes(func: X.PrimFunc) -> X.PrimFunc:
    """Apply the pass."""
    return func.with_body(structural_map(func.body, ((X.EQ, X.NE), _as_bytes)))


def _as_bytes(node: Any) -> Any:
    dtype = str(node.a.ty.dtype)
    if not dtype.startswith("bool"):
        return node
    wide = dtype.replace("bool", "int8")
    return type(node)(X.Cast(wide, node.a), X.Cast(wide, node.b), node.span)
