"""T.q_multiply_shift and _per_axis: products of numbers with fractional bits, rounded half up.

In 64 bits: the first operand shifted left, times the second, then shifted right by `q` and what is asked.
"""

from __future__ import annotations

import ast
from typing import Any

from tvm import ir

from tilelang.frontend.dtypes import is_float
from tilelang.frontend.operators import binary, cast, literal
from tilelang.frontend.scalars import dtype_of_expr

_WIDE = "int64"


def multiply_shift(x: Any, y: Any, q: Any, s: Any) -> Any:
    """x · y · 2^(s - q) in the dtype of `x`; `s` shifts the operand left, a negative one the product right.

    Raises TypeError for floats and ValueError for a shift that is known only at run time.
    """
    if isinstance(s, ir.Expr) or isinstance(q, ir.Expr):
        raise ValueError("`q` and `s` must be numbers known at compile time")
    return _product(x, y, max(s, 0), q + max(-s, 0))


def multiply_shift_per_axis(
    x: Any, y: Any, ls: Any, rs: Any, q: Any, is_lshift_required: Any, is_rshift_required: Any
) -> Any:
    """(x · 2^ls) · y · 2^-(q + rs) in the dtype of `x`; without `is_lshift_required` nothing is shifted left.

    `rs` counts whether or not a shift to the right is called required, as in the language's release.
    """
    if any(isinstance(flag, ir.Expr) for flag in (is_lshift_required, is_rshift_required)):
        raise ValueError("whether shifts are required must be known at compile time")
    return _product(x, y, ls if is_lshift_required else 0, binary(ast.Add, q, rs))


def _product(x: Any, y: Any, left: Any, right: Any) -> Any:
    values = [v if isinstance(v, ir.Expr) else literal(v) for v in (x, y)]
    if any(is_float(dtype_of_expr(v)) for v in values):
        raise TypeError("fixed-point numbers are integers")
    wide, factor = (cast(_WIDE, v) for v in values)
    if isinstance(left, ir.Expr) or left:
        wide = binary(ast.LShift, wide, cast(_WIDE, left))
    half = binary(ast.LShift, cast(_WIDE, 1), cast(_WIDE, binary(ast.Sub, right, 1)))
    total = binary(ast.Add, binary(ast.Mult, wide, factor), half)
    return cast(dtype_of_expr(values[0]), binary(ast.RShift, total, cast(_WIDE, right)))
