"""exp and exp2 of float32 as arithmetic that LLVM vectorises; its own calls of the C library run one lane at
a time.

Both split x into an integer n and a rest r in half an interval around zero: exp(x) = 2^n · exp(r), r = x - n
· ln 2 in two parts (Cody and Waite), exp2(x) = 2^n · exp2(r). The polynomials are those of the Cephes library
(expf, exp2f); the result is within 2 units in the last place, infinities, NaN and denormal results included.
"""

from __future__ import annotations

from collections.abc import Callable
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


# Gives a value that is used several times a name of its own, evaluated once before the statement.
NameValue = Callable[[str, Any], Any]


def vectorisable(call: Any, name_value: NameValue) -> Any:
    """A call of exp or exp2 as arithmetic; any other node as it is."""
    name = call.op.name if isinstance(call.op, ir.Op) else ""
    if name not in ("tirx.exp", "tirx.exp2") or str(call.ty.dtype) not in ("float32", "float16"):
        return call
    dtype = str(call.ty.dtype)
    argument = call.args[0] if dtype == "float32" else X.Cast("float32", call.args[0])
    argument = name_value("argument", argument)
    value = (_exp if name == "tirx.exp" else _exp2)(argument, name_value)
    return value if dtype == "float32" else X.Cast(dtype, value)


def _exp(argument: Any, name_value: NameValue) -> Any:
    x = name_value("x", _clamped(argument, -104.5, 89.5))
    whole, n = _split(x * _f(_LOG2_E), name_value)
    r = name_value("r", x - whole * _f(_LN2_HIGH) - whole * _f(_LN2_LOW))
    return (_horner(_EXP, r) * (r * r) + r + _f(1.0)) * _power(n, "low") * _power(n, "high")


def _exp2(argument: Any, name_value: NameValue) -> Any:
    x = name_value("x", _clamped(argument, -151.0, 129.0))
    whole, n = _split(x, name_value)
    r = name_value("r", x - whole)
    return (_horner(_EXP2, r) * r + _f(1.0)) * _power(n, "low") * _power(n, "high")


def _clamped(argument: Any, low: float, high: float) -> Any:
    """`argument` between the bounds where the result is 0 and infinity; NaN passes."""
    below = X.Select(X.LT(argument, _f(low)), _f(low), argument)
    return X.Select(X.GT(argument, _f(high)), _f(high), below)


def _split(scaled: Any, name_value: NameValue) -> tuple[Any, Any]:
    """The nearest integer, as a float and as an integer."""
    rounded = name_value("rounded", scaled + _f(_ROUNDER))
    whole = name_value("whole", rounded - _f(_ROUNDER))
    return whole, name_value("n", X.reinterpret("int32", rounded) - X.const(_ROUNDER_BITS, "int32"))


def _power(n: Any, half: str) -> Any:
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
