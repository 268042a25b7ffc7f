"""Python's operators on values: plain Python on untraced operands, TIRX on traced ones, Unknown on Unknown.

Meaning on traced operands: `/` on integers gives a float32, `//` and `%` round towards minus infinity, mixed
dtypes meet as `dtypes.promote` says. A Python number meets as an int32 (int64 where that is too narrow) or as
a float32, so that `A[i] - 8` is negative although A holds uint8; but beside a float an integer takes its
dtype, and so does one in an operation on bits.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.arch.dtypes import dtype_info, element_bits
from tilelang.arch.float_formats import float_format
from tilelang.frontend.dtypes import element_of, is_float, promote
from tilelang.frontend.scalars import dtype_of_expr, plain_number
from tilelang.ir.values import Buffer, Unknown

PYTHON_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.MatMult: operator.matmul,
}
PYTHON_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
SYMBOLS: dict[type, str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.MatMult: "@",
}
_FLOAT_NODES = {ast.Add: X.Add, ast.Sub: X.Sub, ast.Mult: X.Mul}
_ON_BITS = (ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr, ast.BitXor)
_COMPARE = {ast.Eq: X.EQ, ast.NotEq: X.NE, ast.Lt: X.LT, ast.LtE: X.LE, ast.Gt: X.GT, ast.GtE: X.GE}


def constant(value: bool | int | float, dtype: str) -> Any:
    """A number in a dtype: integers wrap around, floats beyond its range are infinite.

    In floats of 8 bits and fewer, which are saturated, they become the largest number.
    """
    if dtype == "bool":
        return X.const(bool(value), dtype)
    if (narrow := float_format(dtype)) is not None:
        return X.const(narrow.nearest(_as_float(value)), dtype)
    if is_float(dtype):
        largest = _LARGEST.get(dtype, math.inf)
        number = _as_float(value)
        if math.isfinite(number) and abs(number) > largest:
            number = math.copysign(math.inf, number)
        return X.const(number, dtype)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no {dtype}")
    return X.const(_wrapped(int(value), dtype), dtype)


_LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}


def _as_float(value: bool | int | float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond all floats
        return math.inf if value > 0 else -math.inf


def _wrapped(value: int, dtype: str) -> int:
    if fits(value, dtype):
        return value
    width = element_bits(dtype)
    value &= (1 << width) - 1
    return value - (1 << width) if dtype.startswith("int") and value >> (width - 1) else value


def fits(value: int, dtype: str) -> bool:
    """Whether an integer is a value of an integer dtype."""
    width = element_bits(dtype)
    if dtype.startswith("uint"):
        return 0 <= value < 1 << width
    return -(1 << (width - 1)) <= value < 1 << (width - 1)


def literal(value: bool | int | float) -> ir.Expr:
    """A Python number on its own as an expression: bool, float32, and the narrowest of int32, int64 and
    uint64 that holds an integer (a wider one wraps, as it does where it is stored).
    """
    if isinstance(value, bool | float):
        return constant(value, "bool" if isinstance(value, bool) else "float32")
    whole = int(value)
    return constant(whole, next((d for d in ("int32", "int64", "uint64") if fits(whole, d)), "int64"))


def representable(value: Any, buffer: Buffer) -> Any:
    """A number to be stored in a buffer, converted now if its dtype does not hold it; others unchanged."""
    dtype = buffer.dtype
    if not isinstance(value, int | float) or isinstance(value, bool) or isinstance(dtype, Unknown):
        return value
    if float_format(dtype) is not None:
        return constant(value, dtype)
    if is_float(dtype):
        return value if not abs(value) > _LARGEST.get(dtype, math.inf) else constant(value, dtype)
    if isinstance(value, int) and dtype != "bool" and fits(value, dtype):
        return value
    return constant(value, dtype) if math.isfinite(value) else Unknown(f"{value} is no {dtype}")


def cast(dtype: str, value: Any) -> Any:
    """`value` in `dtype`, folded for constants."""
    if isinstance(value, bool | int | float):
        return constant(value, dtype)
    if dtype_of_expr(value) == dtype:
        return value
    if isinstance(value, X.IntImm | X.FloatImm):
        number = value.value
        return constant(int(number) if isinstance(value, X.IntImm) else float(number), dtype)
    if (element := element_of(dtype)) != dtype and dtype_info(dtype_of_expr(value)).lanes == 1:
        return X.Broadcast(cast(element, value), dtype_info(dtype).lanes)
    return X.Cast(dtype, value)


def match(a: Any, b: Any, bits: bool = False) -> tuple[Any, Any, str]:
    """Both operands as expressions of one dtype; at least one is traced."""
    dtype = joint_dtype(a, b, bits)
    return cast(dtype, a), cast(dtype, b), dtype


def joint_dtype(a: Any, b: Any, bits: bool = False) -> str:
    """The dtype in which two operands meet; `bits`: for an operation on bits, as `&` and `>>` are."""
    traced = [dtype_of_expr(v) for v in (a, b) if isinstance(v, ir.Expr)]
    if len(traced) == 2:
        return promote(*traced)
    number, own = b if isinstance(a, ir.Expr) else a, traced[0]
    if dtype_info(own).lanes > 1 or isinstance(number, bool):
        return own
    if isinstance(number, float):
        return own if is_float(own) and element_bits(own) >= 32 else "float32"
    if is_float(own) or (bits and own != "bool" and fits(number, own)):
        return own
    kind = "int32" if fits(number, "int32") and not (own == "uint32" and number < 0) else "int64"
    return promote(own, kind) if own != "bool" else kind


def as_bool(value: Any) -> Any:
    """A condition: bool expressions unchanged, numbers compared with zero."""
    if not isinstance(value, ir.Expr):
        return bool(value)
    dtype = dtype_of_expr(value)
    return value if dtype == "bool" else X.NE(value, X.const(0, dtype))


def fold(value: Any) -> Any:
    """An int32 constant as a Python integer, a bool constant as a Python bool; everything else unchanged."""
    if isinstance(value, X.IntImm):
        dtype = dtype_of_expr(value)
        if dtype == "bool":
            return bool(value.value)
        if dtype == "int32":
            return int(value.value)
    return value


def binary(kind: type[ast.operator], a: Any, b: Any) -> Any:
    """`a op b` on scalars. Raises what Python raises on untraced operands, TypeError where TIRX has no
    such operation.
    """
    for v in (a, b):
        if isinstance(v, Unknown):
            return v
    if not isinstance(a, ir.Expr) and not isinstance(b, ir.Expr):
        return PYTHON_BINARY[kind](a, b)
    a, b = plain_number(a), plain_number(b)
    for v in (a, b):
        if not isinstance(v, ir.Expr | bool | int | float):
            raise TypeError(f"a {type(v).__name__} cannot be combined with a value of the kernel")
    if kind in (ast.Div, ast.FloorDiv, ast.Mod) and _is_zero(b):
        raise ZeroDivisionError("division by zero")
    if kind is ast.Div:
        a, b, dtype = match(a, b)
        if not is_float(dtype):
            a, b = cast("float32", a), cast("float32", b)
        return X.Div(a, b)
    if kind in (ast.Add, ast.Sub, ast.Mult):
        a, b, dtype = match(a, b)
        if dtype == "bool":
            a, b = cast("int32", a), cast("int32", b)
        if is_float(dtype) and not (isinstance(a, X.FloatImm) and isinstance(b, X.FloatImm)):
            # TVM's operators fold `x * 0` and `x + 0`, which infinities, NaN and -0 make wrong.
            return _FLOAT_NODES[kind](a, b)
        return fold(PYTHON_BINARY[kind](a, b))
    if kind is ast.MatMult:
        raise TypeError("it has no meaning on elements; use T.gemm on tiles")
    a, b, dtype = match(a, b, kind in _ON_BITS)
    real = is_float(dtype)
    if kind is ast.FloorDiv:
        return X.floor(X.Div(a, b)) if real else fold(X.floordiv(a, b))
    if kind is ast.Mod:
        return X.Sub(a, X.Mul(X.floor(X.Div(a, b)), b)) if real else fold(X.floormod(a, b))
    if kind is ast.Pow:
        return power(a, b)
    if real:
        raise TypeError(f"`{SYMBOLS[kind]}` needs integers, not {dtype}")
    if kind in (ast.LShift, ast.RShift) and isinstance(b, X.IntImm) and element_bits(dtype) <= b.value < 32:
        # As in C, where narrow integers are shifted in 32 bits: `T.uint16(x) << 16` keeps its bits.
        dtype = "uint32" if dtype.startswith("uint") else "int32"
        a, b = cast(dtype, a), cast(dtype, b)
    if (
        kind in (ast.LShift, ast.RShift)
        and isinstance(b, X.IntImm)
        and not 0 <= b.value < element_bits(dtype)
    ):
        raise ValueError(
            f"{b.value} is no shift amount for {dtype}: it must be 0 to {element_bits(dtype) - 1}"
        )
    if kind is ast.LShift:
        return X.shift_left(a, b)
    if kind is ast.RShift:
        return X.shift_right(a, b)
    if dtype == "bool" and kind in (ast.BitAnd, ast.BitOr):
        return X.And(a, b) if kind is ast.BitAnd else X.Or(a, b)
    if dtype == "bool" and kind is ast.BitXor:
        return X.NE(a, b)
    if kind in (ast.BitAnd, ast.BitOr, ast.BitXor):
        return {ast.BitAnd: X.bitwise_and, ast.BitOr: X.bitwise_or, ast.BitXor: X.bitwise_xor}[kind](a, b)
    raise TypeError(f"`{SYMBOLS[kind]}` has no meaning on values of the kernel")


def _is_zero(value: Any) -> bool:
    return getattr(value, "value", value) == 0 and isinstance(value, X.IntImm | X.FloatImm | int | float)


_MAX_EXPONENT = 16  # powers up to this one are written as products


def power(a: Any, b: Any) -> Any:
    """`a ** b`: small constant integer exponents as products, other powers of integers in float32."""
    if isinstance(b, X.IntImm | X.FloatImm) and b.value in range(1, _MAX_EXPONENT + 1):
        return _product(a, int(b.value))
    if not is_float(dtype_of_expr(a)):
        a, b = cast("float32", a), cast("float32", b)
    # Not X.pow, which logs a warning for exponents above 3.
    return X.call_intrin(dtype_of_expr(a), "tirx.pow", a, b)


def _product(a: Any, exponent: int) -> Any:
    if exponent == 1:
        return a
    half = _product(a, exponent // 2)
    square = X.Mul(half, half)
    return X.Mul(square, a) if exponent % 2 else square


def compare(kind: type[ast.cmpop], a: Any, b: Any) -> Any:
    """`a op b` for a comparison; `is` and `in` compare Python objects."""
    for v in (a, b):
        if isinstance(v, Unknown):
            return v
    if kind not in _COMPARE or not (isinstance(a, ir.Expr) or isinstance(b, ir.Expr)):
        return PYTHON_COMPARE[kind](a, b)
    a, b = plain_number(a), plain_number(b)
    for v in (a, b):
        if not isinstance(v, ir.Expr | bool | int | float):
            if kind in (ast.Eq, ast.NotEq):
                return kind is ast.NotEq
            raise TypeError(f"a {type(v).__name__} cannot be compared with a value of the kernel")
    a, b, dtype = match(a, b)
    if isinstance(a, X.IntImm) and isinstance(b, X.IntImm):
        return PYTHON_COMPARE[kind](int(a.value), int(b.value))
    if a.same_as(b) and isinstance(a, ir.Var) and not is_float(dtype):  # a NaN is not equal to itself
        return kind in (ast.Eq, ast.LtE, ast.GtE)
    if dtype_of_expr(a) == "bool" == dtype_of_expr(b):  # as in Python; LLVM would compare them as floats
        a, b = X.Cast("int32", a), X.Cast("int32", b)
    return _COMPARE[kind](a, b)


def conjunction(a: Any, b: Any) -> Any:
    """`a and b` of conditions, either traced."""
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        return a if isinstance(a, Unknown) else b
    if not isinstance(a, ir.Expr):
        return b if a else a
    if not isinstance(b, ir.Expr):
        return as_bool(a) if b else False
    return X.And(as_bool(a), as_bool(b))


def disjunction(a: Any, b: Any) -> Any:
    """`a or b` of conditions, either traced."""
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        return a if isinstance(a, Unknown) else b
    if not isinstance(a, ir.Expr):
        return a if a else b
    if not isinstance(b, ir.Expr):
        return True if b else as_bool(a)
    return X.Or(as_bool(a), as_bool(b))


def negate(value: Any) -> Any:
    """`not value`."""
    if isinstance(value, Unknown):
        return value
    return X.Not(as_bool(value)) if isinstance(value, ir.Expr) else not value


def unary(kind: type[ast.unaryop], value: Any) -> Any:
    """`-x`, `+x`, `~x`, `not x`."""
    if isinstance(value, Unknown):
        return value
    if kind is ast.Not:
        return negate(value)
    if not isinstance(value, ir.Expr):
        return {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert}[kind](value)
    dtype = dtype_of_expr(value)
    if kind is ast.UAdd:
        return value
    if kind is ast.USub and isinstance(value, X.IntImm | X.FloatImm):
        return X.const(-value.value, dtype)
    if kind is ast.USub and dtype == "bool":
        return X.Sub(X.const(0, "int32"), cast("int32", value))
    if kind is ast.USub:
        return X.Sub(X.const(0, dtype), value) if not is_float(dtype) else X.Mul(value, X.const(-1, dtype))
    if dtype == "bool":
        return X.Not(value)
    if is_float(dtype):
        raise TypeError(f"`~` needs an integer, not {dtype}")
    return X.bitwise_not(value)
