"""Conversions of integers that wrap, hidden from TVM's integer analysis.

In:  a lowered function.
Out: the same, where an integer conversion that may change the number goes by the bits of an unsigned one.
Why: TVM takes a conversion to keep its number: it divides `int32(x)` of an unsigned `x` without a floor, as
     it believes it to be never negative. LLVM makes nothing of a reinterpretation.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx as X

from tilelang.ir.wrapping_casts import may_wrap

from tvm_ffi import structural_map  # isort: skip


def hide_wrapping(func: X.PrimFunc) -> X.PrimFunc:
    """`func` with such conversions to signed integers hidden."""
    return func.with_body(structural_map(func.body, (X.Cast, _bits)))


def _bits(cast: X.Cast) -> Any:
    dtype = str(cast.ty)
    if not dtype.startswith("int") or not may_wrap(cast):
        return cast
    same_width = f"u{dtype}"
    unsigned = cast.value if str(cast.value.ty) == same_width else X.Cast(same_width, cast.value)
    return X.reinterpret(dtype, unsigned)
