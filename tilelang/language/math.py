"""Scalar functions of the language: on elements inside loops, on sizes anywhere in a kernel."""

from __future__ import annotations

from typing import Any

from tilelang.language.dtypes import DTypeLike
from tilelang.language.values import OutsideKernelError, Scalar


def exp(x: Any) -> Scalar:
    """e to the power of x."""
    raise OutsideKernelError("exp")


def exp2(x: Any) -> Scalar:
    """2 to the power of x; on GPUs the cheapest of the exponentials."""
    raise OutsideKernelError("exp2")


def exp10(x: Any) -> Scalar:
    """10 to the power of x."""
    raise OutsideKernelError("exp10")


def log(x: Any) -> Scalar:
    """The natural logarithm of x."""
    raise OutsideKernelError("log")


def log2(x: Any) -> Scalar:
    """The logarithm of x to base 2."""
    raise OutsideKernelError("log2")


def log10(x: Any) -> Scalar:
    """The logarithm of x to base 10."""
    raise OutsideKernelError("log10")


def log1p(x: Any) -> Scalar:
    """log(1 + x), exact for small x."""
    raise OutsideKernelError("log1p")


def sqrt(x: Any) -> Scalar:
    """The square root of x."""
    raise OutsideKernelError("sqrt")


def rsqrt(x: Any) -> Scalar:
    """1 / sqrt(x)."""
    raise OutsideKernelError("rsqrt")


def sin(x: Any) -> Scalar:
    """The sine of x, in radians."""
    raise OutsideKernelError("sin")


def cos(x: Any) -> Scalar:
    """The cosine of x, in radians."""
    raise OutsideKernelError("cos")


def tan(x: Any) -> Scalar:
    """The tangent of x, in radians."""
    raise OutsideKernelError("tan")


def asin(x: Any) -> Scalar:
    """The arc sine of x, in radians."""
    raise OutsideKernelError("asin")


def acos(x: Any) -> Scalar:
    """The arc cosine of x, in radians."""
    raise OutsideKernelError("acos")


def atan(x: Any) -> Scalar:
    """The arc tangent of x, in radians."""
    raise OutsideKernelError("atan")


def sinh(x: Any) -> Scalar:
    """The hyperbolic sine of x."""
    raise OutsideKernelError("sinh")


def cosh(x: Any) -> Scalar:
    """The hyperbolic cosine of x."""
    raise OutsideKernelError("cosh")


def tanh(x: Any) -> Scalar:
    """The hyperbolic tangent of x."""
    raise OutsideKernelError("tanh")


def sigmoid(x: Any) -> Scalar:
    """1 / (1 + exp(-x))."""
    raise OutsideKernelError("sigmoid")


def erf(x: Any) -> Scalar:
    """The error function of x."""
    raise OutsideKernelError("erf")


def abs(x: Any) -> Scalar:
    """The absolute value of x."""
    raise OutsideKernelError("abs")


def floor(x: Any) -> Scalar:
    """The largest integer not above x, as a float."""
    raise OutsideKernelError("floor")


def ceil(x: Any) -> Scalar:
    """The smallest integer not below x, as a float."""
    raise OutsideKernelError("ceil")


def trunc(x: Any) -> Scalar:
    """x without its fraction, as a float."""
    raise OutsideKernelError("trunc")


def nearbyint(x: Any) -> Scalar:
    """The nearest integer, ties to even, as a float."""
    raise OutsideKernelError("nearbyint")


def isnan(x: Any) -> Scalar:
    """Whether x is not a number."""
    raise OutsideKernelError("isnan")


def isinf(x: Any) -> Scalar:
    """Whether x is infinite."""
    raise OutsideKernelError("isinf")


def isfinite(x: Any) -> Scalar:
    """Whether x is neither infinite nor not a number."""
    raise OutsideKernelError("isfinite")


def bitwise_not(x: Any) -> Scalar:
    """Every bit of x inverted."""
    raise OutsideKernelError("bitwise_not")


def atan2(x1: Any, x2: Any) -> Scalar:
    """The angle of the point (x2, x1), in radians."""
    raise OutsideKernelError("atan2")


def pow(x: Any, y: Any) -> Scalar:
    """x to the power of y."""
    raise OutsideKernelError("pow")


def fmod(x: Any, y: Any) -> Scalar:
    """The remainder of x / y with the sign of x."""
    raise OutsideKernelError("fmod")


def max(a: Any, b: Any) -> Scalar:
    """The larger of two numbers."""
    raise OutsideKernelError("max")


def min(a: Any, b: Any) -> Scalar:
    """The smaller of two numbers."""
    raise OutsideKernelError("min")


def floordiv(a: Any, b: Any) -> Scalar:
    """a / b rounded down, as Python's //."""
    raise OutsideKernelError("floordiv")


def floormod(a: Any, b: Any) -> Scalar:
    """The remainder of `floordiv`, as Python's %."""
    raise OutsideKernelError("floormod")


def truncdiv(a: Any, b: Any) -> Scalar:
    """a / b rounded towards zero, as C's /."""
    raise OutsideKernelError("truncdiv")


def truncmod(a: Any, b: Any) -> Scalar:
    """The remainder of `truncdiv`, as C's %."""
    raise OutsideKernelError("truncmod")


def bitwise_and(x: Any, y: Any) -> Scalar:
    """Bits set in both."""
    raise OutsideKernelError("bitwise_and")


def bitwise_or(x: Any, y: Any) -> Scalar:
    """Bits set in either."""
    raise OutsideKernelError("bitwise_or")


def bitwise_xor(x: Any, y: Any) -> Scalar:
    """Bits set in exactly one."""
    raise OutsideKernelError("bitwise_xor")


def shift_left(x: Any, y: Any) -> Scalar:
    """x with its bits moved up by y."""
    raise OutsideKernelError("shift_left")


def shift_right(x: Any, y: Any) -> Scalar:
    """x with its bits moved down by y; the sign stays."""
    raise OutsideKernelError("shift_right")


def round(x: Any, rounding_mode: str = "ties-to-even") -> Scalar:
    """The nearest integer, as a float. rounding_mode: what happens half-way; only "ties-to-even" is
    supported.
    """
    raise OutsideKernelError("round")


def fma(x: Any, y: Any, z: Any) -> Scalar:
    """x * y + z, rounded once."""
    raise OutsideKernelError("fma")


def clamp(dst: Any, min_val: Any, max_val: Any) -> Scalar:
    """`dst` brought into [min_val, max_val]; max_val wins if the bounds cross, a NaN stays one."""
    raise OutsideKernelError("clamp")


def infinity(dtype: DTypeLike) -> Scalar:
    """Positive infinity of a float dtype."""
    raise OutsideKernelError("infinity")


def max_value(dtype: DTypeLike) -> Scalar:
    """The largest finite number of a dtype."""
    raise OutsideKernelError("max_value")


def min_value(dtype: DTypeLike) -> Scalar:
    """The smallest (most negative) finite number of a dtype."""
    raise OutsideKernelError("min_value")


def if_then_else(cond: Any, t: Any, f: Any) -> Scalar:
    """`t` where `cond` holds, else `f`; only the chosen one is evaluated, so `cond` may guard an access."""
    raise OutsideKernelError("if_then_else")


def Select(condition: Any, true_value: Any, false_value: Any) -> Scalar:
    """Like `T.if_then_else`, but both are evaluated: neither may read outside its tile."""
    raise OutsideKernelError("Select")


def cast(value: Any, dtype: DTypeLike, round: str = "", sat: bool = True) -> Scalar:
    """`value` converted to `dtype`; a float to an integer truncates. Other values of round and sat are not
    supported.
    """
    raise OutsideKernelError("cast")


def reinterpret(value: Any, dtype: DTypeLike) -> Scalar:
    """The same bits read as another dtype of the same size."""
    raise OutsideKernelError("reinterpret")
