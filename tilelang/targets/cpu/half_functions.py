"""Functions of float16 that LLVM and the C library have for wider floats only, computed in float32.

In:  a tile function.
Out: the same, where these functions take and give float32, rounded to float16 behind each.
Not: functions that LLVM knows for float16 itself (exp, sqrt, tanh, ...).
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir
from tvm import tirx as X

_WIDE = frozenset(
    f"tirx.{name}"
    for name in (
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "copysign",
        "cosh",
        "erf",
        "hypot",
        "log1p",
        "sinh",
    )
)


def widen_half_functions(func: X.PrimFunc) -> X.PrimFunc:
    """Apply the pass."""
    return func.with_body(tvm_ffi.structural_map(func.body, (ir.Call, _widened)))


def _widened(node: ir.Call) -> Any:
    if not isinstance(node.op, ir.Op) or node.op.name not in _WIDE:
        return node
    dtype = str(node.ty.dtype)
    if not dtype.startswith("float16"):
        return node
    wide = dtype.replace("float16", "float32")
    args = [X.Cast(wide, a) for a in node.args]
    return X.Cast(dtype, X.call_intrin(wide, node.op.name, *args, span=node.span))
