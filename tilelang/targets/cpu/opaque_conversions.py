"""Conversions of integers to floats, hidden from TVM's integer analysis.

In:  a lowered function.
Out: the same, where a bound value (`Bind`) that converts an integer to a float does so through `x | 0`.
Why: passes on the way to LLVM ask for the range of every bound value; for `float(i)` with a known range of i
     the analysis makes an integer constant of float type and fails. Of `|` it knows no range. LLVM drops it.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx as X

from tvm_ffi import structural_map  # isort: skip


def hide_conversions(func: X.PrimFunc) -> X.PrimFunc:
    """`func` with the conversions inside its bound values hidden."""
    return func.with_body(structural_map(func.body, (X.Bind, _bind)))


def _bind(bind: X.Bind) -> Any:
    return X.Bind(bind.var, structural_map(bind.value, (X.Cast, _cast)), bind.span)


def _cast(cast: X.Cast) -> Any:
    if not str(cast.ty).startswith(("float", "bfloat")) or not _is_integer(cast.value):
        return cast
    zero = X.const(0, str(cast.value.ty))
    return X.Cast(str(cast.ty), X.BitwiseOr(cast.value, zero), cast.span)


def _is_integer(value: Any) -> bool:
    """Whether `value` is a scalar integer: vectors have no ranges, constants are folded."""
    text = str(value.ty)
    return text.startswith(("int", "uint")) and "x" not in text and not isinstance(value, X.IntImm)
