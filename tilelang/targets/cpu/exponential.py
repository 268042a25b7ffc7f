"""exp and exp2 of float32 as arithmetic that LLVM vectorises; its own calls of the C library run one lane at
a time.

Both split x into an integer n and a rest r in half an interval around zero: exp(x) = 2^n · exp(r), r = x - n
· ln 2 in two parts (Cody and Waite), exp2(x) = 2^n · exp2(r). The polynomials are those of the Cephes library
(expf, exp2f); the result is within 2 units in the last place, infinities, NaN and denormal results included.
"""

from __future__ import annotations

from typing import Any

from tvm import ir
from tvm import tirx as X

_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
_EXP2 = (
    1.535336188319500e-4,
    1.339887440266574e-3,
    9.618437357674640e-3,
    5.550332471162809e-2,
    2.402264791363012e-1,
    6.931472028550421e-1,
)
_LOG2_E = 1.44269504088896341
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
# Adding it rounds a small float to an integer, which then stands in the low bits; no conversion, which NaN
# would break.
_ROUNDER, _ROUNDER_BITS = 12582912.0, 0x4B400000
_BIAS, _MANTISSA_BITS = 127, 23


def vectorisable(call: Any) -> Any:
    """A call of exp or exp2 as arithmetic; any other node as it is."""
    name = call.op.name if isinstance(call.op, ir.Op) else ""
    if name not in ("tirx.exp", "tirx.exp2") or str(call.ty.dtype) not in ("float32", "float16"):
        return call
    dtype = str(call.ty.dtype)
    argument = call.args[0] if dtype == "float32" else X.Cast("float32", call.args[0])
    value = _exp(argument) if name == "tirx.exp" else _exp2(argument)
    return value if dtype == "float32" else X.Cast(dtype, value)


def _exp(argument: Any) -> Any:
    x, bits, n, r = _names()
    square = r * r
    result = (_horner(_EXP, r) * square + r + _f(1.0)) * _power(n, "low") * _power(n, "high")
    rest = x - _whole(bits) * _f(_LN2_HIGH) - _whole(bits) * _f(_LN2_LOW)
    return _bound(argument, -104.5, 89.5, x, x * _f(_LOG2_E), bits, n, rest, r, result)


def _exp2(argument: Any) -> Any:
    x, bits, n, r = _names()
    result = (_horner(_EXP2, r) * r + _f(1.0)) * _power(n, "low") * _power(n, "high")
    return _bound(argument, -151.0, 129.0, x, x, bits, n, x - _whole(bits), r, result)


def _names() -> tuple[ir.Var, ir.Var, ir.Var, ir.Var]:
    return X.Var("x", "float32"), X.Var("rounded", "float32"), X.Var("n", "int32"), X.Var("r", "float32")


def _bound(
    argument: Any,
    low: float,
    high: float,
    x: ir.Var,
    scaled: Any,
    rounded: ir.Var,
    n: ir.Var,
    rest: Any,
    r: ir.Var,
    result: Any,
) -> Any:
    """`result` with its variables bound; x is clamped to where the result is 0 or infinity, NaN passes."""
    unclamped = X.Var("argument", "float32")
    below = X.Select(X.LT(unclamped, _f(low)), _f(low), unclamped)
    clamped = X.Select(X.GT(unclamped, _f(high)), _f(high), below)
    number = X.reinterpret("int32", rounded) - X.const(_ROUNDER_BITS, "int32")
    inner = X.Let(rounded, scaled + _f(_ROUNDER), X.Let(n, number, X.Let(r, rest, result)))
    return X.Let(unclamped, argument, X.Let(x, clamped, inner))


def _whole(rounded: ir.Var) -> Any:
    """The integer that adding the rounder has found, as a float."""
    return rounded - _f(_ROUNDER)


def _power(n: ir.Var, half: str) -> Any:
    """2 to half of n: two factors reach denormal results and infinity without a third case."""
    lower = n >> X.const(1, "int32")
    exponent = lower if half == "low" else n - lower
    biased = (exponent + X.const(_BIAS, "int32")) << X.const(_MANTISSA_BITS, "int32")
    return X.reinterpret("float32", biased)


def _horner(coefficients: tuple[float, ...], r: Any) -> Any:
    value: Any = _f(coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * r + _f(coefficient)
    return value


def _f(value: float) -> Any:
    return X.const(value, "float32")
