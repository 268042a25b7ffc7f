"""Functions that targets without instructions or libraries for them compute by plain arithmetic.

In:  a function with the calls of `ir.math_ops`, inverse hyperbolic functions and hypot.
Out: the same written out: approximations are computed exactly; a result to the nearest is moved to its
     neighbour where the exact one, known from its error in float64, lies on the other side.
Not: float64 with another rounding than to the nearest: its error would need more than float64.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import tvm_ffi
from tvm import ir
from tvm import tirx as X

from tilelang.ir import math_ops

_FAST = {math_ops.FAST[name]: function for name, function in math_ops.EXACT.items()}


def plain_math(func: X.PrimFunc, float64: bool = True) -> X.PrimFunc:
    """The function without calls of `ir.math_ops`.

    float64: whether the target has it. Raises NotImplementedError for a rounding that this leaves open.
    """
    return func.with_body(tvm_ffi.structural_map(func.body, (ir.Call, functools.partial(_plain, float64))))


def _log1p(x: Any) -> Any:
    return X.call_intrin(str(x.ty.dtype), "tirx.log1p", x)


def _f(number: float, like: Any) -> Any:
    return X.const(number, str(like.ty.dtype))


def _asinh(x: Any) -> Any:
    """sign(x) · log(|x| + sqrt(x² + 1)), written so that nothing cancels near zero."""
    size = X.abs(x)
    square = X.Mul(x, x)
    one = _f(1.0, x)
    grown = X.Add(size, X.Div(square, X.Add(one, X.sqrt(X.Add(one, square)))))
    # Where the square is infinite, log(2 |x|).
    large = X.Add(X.log(size), _f(math.log(2.0), x))
    return X.copysign(X.Select(X.GT(size, _f(1e18, x)), large, _log1p(grown)), x)


def _acosh(x: Any) -> Any:
    """log(x + sqrt(x² - 1)) with t = x - 1."""
    t = X.Sub(x, _f(1.0, x))
    root = X.sqrt(X.Add(X.Mul(_f(2.0, x), t), X.Mul(t, t)))
    large = X.Add(X.log(x), _f(math.log(2.0), x))
    return X.Select(X.GT(x, _f(1e18, x)), large, _log1p(X.Add(t, root)))


def _atanh(x: Any) -> Any:
    twice = X.Mul(_f(2.0, x), x)
    return X.Mul(_f(0.5, x), _log1p(X.Div(twice, X.Sub(_f(1.0, x), x))))


def _hypot(x: Any, y: Any) -> Any:
    """sqrt(x² + y²), scaled by the larger one so that squares neither overflow nor vanish."""
    a, b = X.abs(x), X.abs(y)
    large, small = X.Max(a, b), X.Min(a, b)
    share = X.Div(small, large)
    value = X.Mul(large, X.sqrt(X.Add(_f(1.0, x), X.Mul(share, share))))
    plain = X.Or(X.EQ(large, _f(0.0, x)), X.EQ(small, large))
    # Equal ones include two infinities and two zeros, whose quotient is no number.
    return X.Select(plain, X.Mul(large, X.sqrt(_f(2.0, x))), value)


_WRITTEN_OUT = {
    "tirx.asinh": _asinh,
    "tirx.acosh": _acosh,
    "tirx.atanh": _atanh,
    "tirx.hypot": _hypot,
}


def _plain(float64: bool, node: ir.Call) -> Any:
    name = node.op.name if isinstance(node.op, ir.Op) else ""
    if name == "tirx.exp10" and str(node.ty.dtype) == "float64":
        return X.pow(_f(10.0, node), node.args[0])  # exp(x · log 10) would lose digits in the product
    if name in _WRITTEN_OUT and str(node.ty.dtype) in ("float32", "float64"):
        return _WRITTEN_OUT[name](*node.args)
    if name == "tirx.clz":
        return _leading_zeros(*node.args)
    if not name.startswith("tl."):
        return node
    if name == math_ops.LDG:
        return node.args[0]
    if name in _FAST:
        return _FAST[name](*node.args)
    if name in math_ops.FFS.values():
        return _lowest_bit(*node.args)
    if name in math_ops.NAN_KEEPING:
        return _keeping_nan(name, *node.args)
    found = math_ops.read_ieee(name)
    if found is None:
        return node
    function, rounding, dtype = found
    args = list(node.args)
    if not float64 and function in ("ieee_fmaf", "ieee_frsqrt"):
        return X.call_intrin(dtype, "tirx.fma" if function == "ieee_fmaf" else "tirx.rsqrt", *args)
    nearest = _nearest(function, args, dtype)
    if rounding == "rn":
        return nearest
    if dtype == "float64" or not float64:
        raise NotImplementedError(
            f"this target rounds T.{function} on {dtype} to the nearest only, not {rounding!r}"
        )
    return _moved(nearest, _error(function, [X.Cast("float64", a) for a in args], nearest), rounding)


def _keeping_nan(name: str, a: Any, b: Any) -> Any:
    plain = math_ops.NAN_KEEPING[name](a, b)
    dtype = str(a.ty.dtype)
    if not dtype.startswith(("float", "bfloat")):
        return plain
    asked = [v for v in (a, b) if not isinstance(v, X.FloatImm) or math.isnan(v.value)]
    if not asked:
        return plain
    missing = functools.reduce(
        X.Or, (X.isnan(X.Cast("float32", v) if dtype != "float64" else v) for v in asked)
    )
    return X.Select(missing, X.Cast(dtype, X.const(math.nan, "float32")), plain)


def _nearest(function: str, args: list[Any], dtype: str) -> Any:
    one = X.const(1.0, dtype)
    match function:
        case "ieee_add":
            return X.Add(*args)
        case "ieee_sub":
            return X.Sub(*args)
        case "ieee_mul":
            return X.Mul(*args)
        case "ieee_fdiv":
            return X.Div(*args)
        case "ieee_frcp":
            return X.Div(one, args[0])
        case "ieee_fsqrt":
            return X.sqrt(args[0])
        case "ieee_frsqrt":
            if dtype == "float64":
                return X.Div(one, X.sqrt(args[0]))
            # Two roundings in float64 stay below half a unit of float32.
            return X.Cast(dtype, X.Div(X.const(1.0, "float64"), X.sqrt(X.Cast("float64", args[0]))))
    if dtype == "float64":
        return X.call_intrin(dtype, "tirx.fma", *args)
    wide = [X.Cast("float64", a) for a in args]
    total, error = _two_sum(X.Mul(wide[0], wide[1]), wide[2])
    # A sum in float64 that lies half-way between two float32 is moved off it by what it lost.
    halfway = X.EQ(_bits(total) & X.const((1 << 29) - 1, "int64"), X.const(1 << 28, "int64"))
    outwards = X.GT(X.Mul(total, error), X.const(0.0, "float64"))
    step = X.Select(outwards, X.const(1, "int64"), X.const(-1, "int64"))
    moved = X.reinterpret("float64", _bits(total) + step)
    lost = X.NE(error, X.const(0.0, "float64"))
    return X.Cast("float32", X.Select(X.And(halfway, lost), moved, total))


def _error(function: str, wide: list[Any], nearest: Any) -> Any:
    """A float64 with the sign of the exact result minus `nearest`. `wide`: the operands in float64."""
    r = X.Cast("float64", nearest)
    if function in ("ieee_add", "ieee_sub", "ieee_fmaf"):
        if function == "ieee_fmaf":
            a, b = X.Mul(wide[0], wide[1]), wide[2]
        else:
            a, b = wide[0], wide[1] if function == "ieee_add" else X.Mul(wide[1], X.const(-1.0, "float64"))
        total, error = _two_sum(a, b)
        return X.Add(X.Sub(total, r), error)
    if function == "ieee_mul":
        return X.Sub(X.Mul(wide[0], wide[1]), r)
    if function == "ieee_fsqrt":
        return X.Sub(wide[0], X.Mul(r, r))
    a, b = (X.const(1.0, "float64"), wide[0]) if function == "ieee_frcp" else (wide[0], wide[1])
    rest = X.Sub(a, X.Mul(r, b))
    return X.Select(X.LT(b, X.const(0.0, "float64")), X.Mul(rest, X.const(-1.0, "float64")), rest)


def _leading_zeros(x: Any) -> Any:
    """Every bit below the highest set one is set, then the others are counted."""
    dtype = str(x.ty.dtype)
    width = 64 if dtype.endswith("64") else 32
    filled = X.Cast(f"uint{width}", x)
    for shift in (1, 2, 4, 8, 16, 32)[: 6 if width == 64 else 5]:
        filled = X.bitwise_or(filled, X.shift_right(filled, X.const(shift, f"uint{width}")))
    return X.Cast("int32", X.popcount(X.bitwise_not(filled)))


def _lowest_bit(x: Any) -> Any:
    """How many bits change where 1 is subtracted."""
    dtype = str(x.ty.dtype)
    changed = X.bitwise_xor(x, X.Sub(x, X.const(1, dtype)))
    count = X.Cast("int32", X.popcount(changed))
    return X.Select(X.EQ(x, X.const(0, dtype)), X.const(0, "int32"), count)


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """(a + b rounded, what rounding lost): Knuth, The Art of Computer Programming 4.2.2."""
    total = X.Add(a, b)
    other = X.Sub(total, a)
    return total, X.Add(X.Sub(a, X.Sub(total, other)), X.Sub(b, other))


def _moved(nearest: Any, error: Any, rounding: str) -> Any:
    """`nearest`, or its neighbour where the exact result lies beyond it in the direction of rounding."""
    zero, nothing = X.const(0.0, "float64"), X.const(0.0, "float32")
    bits = X.reinterpret("int32", nearest)
    one = X.const(1, "int32")
    smallest_down = X.const(-(2**31) + 1, "int32")
    up = X.Select(X.EQ(nearest, nothing), one, X.Select(X.GT(nearest, nothing), bits + one, bits - one))
    down = X.Select(
        X.EQ(nearest, nothing), smallest_down, X.Select(X.GT(nearest, nothing), bits - one, bits + one)
    )
    above, below = X.GT(error, zero), X.LT(error, zero)
    if rounding == "ru":
        chosen = X.Select(above, up, bits)
    elif rounding == "rd":
        chosen = X.Select(below, down, bits)
    else:
        inwards = X.Select(X.And(X.LT(nearest, nothing), above), up, bits)
        chosen = X.Select(X.And(X.GT(nearest, nothing), below), down, inwards)
    return X.reinterpret("float32", chosen)


def _bits(value: Any) -> Any:
    return X.reinterpret("int64", value)
