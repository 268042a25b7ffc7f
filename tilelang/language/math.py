"""Scalar functions of the language: on elements inside loops, on sizes anywhere in a kernel."""

from __future__ import annotations

from typing import Any, NoReturn

from tilelang.language.dtypes import DType, DTypeLike
from tilelang.language.values import OutsideKernelError, Scalar, SizeExpression


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


def _plain(*values: Any) -> bool:
    """Whether all are Python's integers: outside a kernel, functions of integers compute on them."""
    return all(isinstance(v, int) for v in values)


def _plain_or_size(*values: Any) -> bool:
    """Whether all are Python's integers or run-time sizes, which Python's operators know."""
    return all(isinstance(v, int | Scalar) for v in values)


def _only_inside(name: str) -> NoReturn:
    raise OutsideKernelError(name)


def max(a: Any, b: Any) -> Scalar:
    """The larger of two numbers. Computes on plain numbers and on run-time sizes outside a kernel too."""
    if isinstance(a, Scalar) or isinstance(b, Scalar):
        return SizeExpression("max", a, b)
    if isinstance(a, int | float) and isinstance(b, int | float):
        return a if a > b else b  # type: ignore[return-value]
    raise OutsideKernelError("max")


def min(a: Any, b: Any) -> Scalar:
    """The smaller of two numbers. Computes on plain numbers and on run-time sizes outside a kernel too."""
    if isinstance(a, Scalar) or isinstance(b, Scalar):
        return SizeExpression("min", a, b)
    if isinstance(a, int | float) and isinstance(b, int | float):
        return a if a < b else b  # type: ignore[return-value]
    raise OutsideKernelError("min")


def floordiv(a: Any, b: Any) -> Scalar:
    """a / b rounded down, as Python's //."""
    return a // b if _plain_or_size(a, b) else _only_inside("floordiv")


def floormod(a: Any, b: Any) -> Scalar:
    """The remainder of `floordiv`, as Python's %."""
    return a % b if _plain_or_size(a, b) else _only_inside("floormod")


def truncdiv(a: Any, b: Any) -> Scalar:
    """a / b rounded towards zero, as C's /."""
    if not _plain(a, b):
        return _only_inside("truncdiv")
    return a // b if (a < 0) == (b < 0) else -(-a // b)


def truncmod(a: Any, b: Any) -> Scalar:
    """The remainder of `truncdiv`, as C's %."""
    return a - b * truncdiv(a, b) if _plain(a, b) else _only_inside("truncmod")


def bitwise_and(x: Any, y: Any) -> Scalar:
    """Bits set in both."""
    return x & y if _plain(x, y) else _only_inside("bitwise_and")


def bitwise_or(x: Any, y: Any) -> Scalar:
    """Bits set in either."""
    return x | y if _plain(x, y) else _only_inside("bitwise_or")


def bitwise_xor(x: Any, y: Any) -> Scalar:
    """Bits set in exactly one."""
    return x ^ y if _plain(x, y) else _only_inside("bitwise_xor")


def shift_left(x: Any, y: Any) -> Scalar:
    """x with its bits moved up by y."""
    return x << y if _plain(x, y) else _only_inside("shift_left")


def shift_right(x: Any, y: Any) -> Scalar:
    """x with its bits moved down by y; the sign stays."""
    return x >> y if _plain(x, y) else _only_inside("shift_right")


def round(x: Any, rounding_mode: str = "ties-to-even") -> Scalar:
    """The nearest integer, as a float. rounding_mode: what happens half-way, "ties-to-even" or
    "ties-away-from-zero".
    """
    raise OutsideKernelError("round")


def fma(x: Any, y: Any, z: Any) -> Scalar:
    """x * y + z, rounded once."""
    raise OutsideKernelError("fma")


def clamp(dst: Any, min_val: Any, max_val: Any) -> Scalar:
    """`dst` brought into [min_val, max_val]; max_val wins if the bounds cross, a NaN stays one."""
    raise OutsideKernelError("clamp")


def if_then_else(cond: Any, t: Any, f: Any) -> Scalar:
    """`t` where `cond` holds, else `f`; only the chosen one is evaluated, so `cond` may guard an access."""
    raise OutsideKernelError("if_then_else")


def Select(condition: Any, true_value: Any, false_value: Any) -> Scalar:
    """Like `T.if_then_else`, but both are evaluated: neither may read outside its tile."""
    raise OutsideKernelError("Select")


def cast(value: Any, dtype: DTypeLike, round: str = "", sat: bool = True, rbits: Any = None) -> Scalar:
    """`value` converted to `dtype`: a float to an integer truncates, to a narrower float it is rounded to the
    nearest, ties to even.

    What is too large for a float of 8 bits and fewer becomes its largest number; with sat=False infinity or
    NaN, as in torch. round: "" and "rn" only; rbits belongs to stochastic rounding, which is not supported.
    """
    if isinstance(value, int | float):
        return DType(dtype)(value)
    raise OutsideKernelError("cast")


def reinterpret(value: Any, dtype: DTypeLike) -> Scalar:
    """The same bits read as another dtype of the same size."""
    raise OutsideKernelError("reinterpret")


def asinh(x: Any) -> Scalar:
    """The inverse hyperbolic sine of x."""
    raise OutsideKernelError("asinh")


def acosh(x: Any) -> Scalar:
    """The inverse hyperbolic cosine of x."""
    raise OutsideKernelError("acosh")


def atanh(x: Any) -> Scalar:
    """The inverse hyperbolic tangent of x."""
    raise OutsideKernelError("atanh")


def fabs(x: Any) -> Scalar:
    """The absolute value of a float."""
    raise OutsideKernelError("fabs")


def popcount(x: Any) -> Scalar:
    """How many bits of an integer are set."""
    raise OutsideKernelError("popcount")


def clz(x: Any) -> Scalar:
    """How many zero bits stand above the highest set one; all of them for 0."""
    raise OutsideKernelError("clz")


def __ffs(value: Any) -> Scalar:
    """The position of the lowest set bit of an integer, counted from 1; 0 for 0 (int32)."""
    raise OutsideKernelError("__ffs")


def fmul(x: Any, y: Any) -> Scalar:
    """x * y rounded to the nearest by itself: no fused multiply-add is made from it."""
    raise OutsideKernelError("fmul")


def index_to_coordinates(index: Any, shape: Any) -> list[Scalar]:
    """The coordinates of the flat row-major number `index` in a tensor of that shape, outermost first.

    Also outside kernels, for numbers and the formulas of layouts.
    """
    found = []
    for extent in reversed(shape):
        found.append(index % extent)
        index = index // extent
    return found[::-1]


def hypot(x1: Any, x2: Any) -> Scalar:
    """sqrt(x1 * x1 + x2 * x2)."""
    raise OutsideKernelError("hypot")


def copysign(x1: Any, x2: Any) -> Scalar:
    """The size of x1 with the sign of x2."""
    raise OutsideKernelError("copysign")


def ldexp(x1: Any, x2: Any) -> Scalar:
    """x1 * 2 ** x2."""
    raise OutsideKernelError("ldexp")


def nextafter(x1: Any, x2: Any) -> Scalar:
    """The number next to x1 in the direction of x2, of float32 or float64; narrower floats are refused."""
    raise OutsideKernelError("nextafter")


def q_multiply_shift(x: Any, y: Any, q: int, s: int) -> Scalar:
    """The product of two integers with `q` fractional bits, times 2 ** s, rounded to the nearest, half up.

    Computed in 64 bits, in the dtype of x. A negative `s` shifts to the right.
    """
    raise OutsideKernelError("q_multiply_shift")


def q_multiply_shift_per_axis(
    x: Any, y: Any, ls: Any, rs: Any, q: Any, is_lshift_required: Any, is_rshift_required: Any
) -> Scalar:
    """(x << ls) * y >> (q + rs), rounded to the nearest, half up, in 64 bits.

    The shifts may differ from element to element. Without `is_lshift_required` x is not shifted; `rs` counts
    either way.
    """
    raise OutsideKernelError("q_multiply_shift_per_axis")


def likely(cond: Any) -> Scalar:
    """`cond`, which mostly holds."""
    raise OutsideKernelError("likely")


def align_up(x: Any, y: Any) -> Scalar:
    """The smallest multiple of y that is not below x."""
    return (x + y - 1) // y * y if _plain_or_size(x, y) else _only_inside("align_up")


def __exp(x: Any) -> Scalar:
    """e to the power of x, in float32 by the fastest approximation of the target."""
    raise OutsideKernelError("__exp")


def __exp10(x: Any) -> Scalar:
    """10 to the power of x, in float32 by the fastest approximation of the target."""
    raise OutsideKernelError("__exp10")


def __log(x: Any) -> Scalar:
    """The natural logarithm of x, in float32 by the fastest approximation of the target."""
    raise OutsideKernelError("__log")


def __log2(x: Any) -> Scalar:
    """The logarithm of x to base 2, in float32 by the fastest approximation of the target."""
    raise OutsideKernelError("__log2")


def __log10(x: Any) -> Scalar:
    """The logarithm of x to base 10, in float32 by the fastest approximation of the target."""
    raise OutsideKernelError("__log10")


def __sin(x: Any) -> Scalar:
    """The sine of x, in float32 by the fastest approximation of the target."""
    raise OutsideKernelError("__sin")


def __cos(x: Any) -> Scalar:
    """The cosine of x, in float32 by the fastest approximation of the target."""
    raise OutsideKernelError("__cos")


def __tan(x: Any) -> Scalar:
    """The tangent of x, in float32 by the fastest approximation of the target."""
    raise OutsideKernelError("__tan")


def fast_rcp(x: Any) -> Scalar:
    """1 / x, in float32 by the fastest approximation of the target."""
    raise OutsideKernelError("fast_rcp")


def ieee_add(x: Any, y: Any, rounding_mode: str = "rn") -> Scalar:
    """x + y, rounded as asked for whatever the options of the compiler.

    rounding_mode: "rn" to the nearest, "rz" towards zero, "ru" up, "rd" down.
    """
    raise OutsideKernelError("ieee_add")


def ieee_sub(x: Any, y: Any, rounding_mode: str = "rn") -> Scalar:
    """x - y, rounded as asked for whatever the options of the compiler.

    rounding_mode: "rn" to the nearest, "rz" towards zero, "ru" up, "rd" down.
    """
    raise OutsideKernelError("ieee_sub")


def ieee_mul(x: Any, y: Any, rounding_mode: str = "rn") -> Scalar:
    """x * y, rounded as asked for whatever the options of the compiler.

    rounding_mode: "rn" to the nearest, "rz" towards zero, "ru" up, "rd" down.
    """
    raise OutsideKernelError("ieee_mul")


def ieee_fmaf(x: Any, y: Any, z: Any, rounding_mode: str = "rn") -> Scalar:
    """x * y + z with one rounding, rounded as asked for whatever the options of the compiler.

    rounding_mode: "rn" to the nearest, "rz" towards zero, "ru" up, "rd" down.
    """
    raise OutsideKernelError("ieee_fmaf")


def ieee_frcp(x: Any, rounding_mode: str = "rn") -> Scalar:
    """1 / x, rounded as asked for whatever the options of the compiler.

    rounding_mode: "rn" to the nearest, "rz" towards zero, "ru" up, "rd" down.
    """
    raise OutsideKernelError("ieee_frcp")


def ieee_fsqrt(x: Any, rounding_mode: str = "rn") -> Scalar:
    """The square root of x, rounded as asked for whatever the options of the compiler.

    rounding_mode: "rn" to the nearest, "rz" towards zero, "ru" up, "rd" down.
    """
    raise OutsideKernelError("ieee_fsqrt")


def ieee_fdiv(x: Any, y: Any, rounding_mode: str = "rn") -> Scalar:
    """x / y, rounded as asked for whatever the options of the compiler.

    rounding_mode: "rn" to the nearest, "rz" towards zero, "ru" up, "rd" down.
    """
    raise OutsideKernelError("ieee_fdiv")


def ieee_frsqrt(x: Any) -> Scalar:
    """1 / sqrt(x), rounded to the nearest whatever the options of the compiler."""
    raise OutsideKernelError("ieee_frsqrt")


def __ldg(load_or_buf: Any, index: Any = None) -> Scalar:
    """An element of a global tensor that nothing writes while the kernel runs: `x[i]`, or `x` and an index.

    On NVIDIA GPUs it is read through the read-only cache.
    """
    raise OutsideKernelError("__ldg")


def add2(x: Any, y: Any) -> Any:
    """x + y on packed pairs.

    x, y: elements of buffers of float16x2, bfloat16x2 or float32x2 (of `T.alloc_local` or `T.view`), or
    slices of two neighbours, as in `B[i : i + 2] = T.add2(x[i : i + 2], y[i : i + 2])`.
    """
    raise OutsideKernelError("add2")


def sub2(x: Any, y: Any) -> Any:
    """x - y on packed pairs; operands as in `T.add2`."""
    raise OutsideKernelError("sub2")


def mul2(x: Any, y: Any) -> Any:
    """x * y on packed pairs; operands as in `T.add2`."""
    raise OutsideKernelError("mul2")


def fma2(x: Any, y: Any, z: Any) -> Any:
    """x * y + z on packed pairs; operands as in `T.add2`."""
    raise OutsideKernelError("fma2")


def max2(x: Any, y: Any) -> Any:
    """The larger of each two elements of packed pairs; operands as in `T.add2`."""
    raise OutsideKernelError("max2")


def min2(x: Any, y: Any) -> Any:
    """The smaller of each two elements of packed pairs; operands as in `T.add2`."""
    raise OutsideKernelError("min2")


def abs2(x: Any) -> Any:
    """The absolute values of a packed pair; operand as in `T.add2`."""
    raise OutsideKernelError("abs2")


def dp4a(A: Any, B: Any, C: Any) -> None:
    """C[0] += the sum of the four products A[k] * B[k]: int8 elements into an int32 one.

    A, B and C are tiles of private memory, or the first element in them.
    """
    raise OutsideKernelError("dp4a")
