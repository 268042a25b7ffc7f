"""Scalar functions of the language (`T.exp`, `T.max`, `T.cast`, ...) as TIRX expressions.

On plain numbers they compute at once, so that `T.ceildiv(1024, 128)` is 8 and `T.max(block, 16)` a size.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.arch.dtypes import dtype_info, element_bits
from tilelang.arch.float_formats import float_format
from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.diagnostics.span import Span
from tilelang.frontend.arguments import Bound
from tilelang.frontend.dtypes import is_float, looks_like_dtype, read_dtype
from tilelang.frontend.operations.fixed_point import multiply_shift, multiply_shift_per_axis
from tilelang.frontend.operations.machine_math import is_machine_math, machine_math
from tilelang.frontend.operations.random_numbers import random_call
from tilelang.frontend.operators import (
    as_bool,
    binary,
    cast,
    fold,
    literal,
    match,
    power,
    unary,
)
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_unknown, dtype_of_expr, named_type, read_element, scalar
from tilelang.frontend.slices import is_slice, slice_length
from tilelang.ir.tile_program import Guard
from tilelang.ir.values import Unknown
from tilelang.language.dtypes import DType

# Functions of one float; integers are converted to float32 first. The second entry computes on plain numbers.
_FLOAT: dict[str, tuple[Callable[[Any], Any], Callable[[float], float]]] = {
    "exp": (X.exp, math.exp),
    "exp2": (X.exp2, lambda x: 2.0**x),
    "exp10": (X.exp10, lambda x: 10.0**x),
    "log": (X.log, math.log),
    "log2": (X.log2, math.log2),
    "log10": (X.log10, math.log10),
    "log1p": (X.log1p, math.log1p),
    "sqrt": (X.sqrt, math.sqrt),
    "rsqrt": (X.rsqrt, lambda x: 1.0 / math.sqrt(x)),
    "sin": (X.sin, math.sin),
    "cos": (X.cos, math.cos),
    "tan": (X.tan, math.tan),
    "asin": (X.asin, math.asin),
    "acos": (X.acos, math.acos),
    "atan": (X.atan, math.atan),
    "sinh": (X.sinh, math.sinh),
    "cosh": (X.cosh, math.cosh),
    "tanh": (X.tanh, math.tanh),
    "asinh": (X.asinh, math.asinh),
    "acosh": (X.acosh, math.acosh),
    "atanh": (X.atanh, math.atanh),
    "sigmoid": (X.sigmoid, lambda x: 1.0 / (1.0 + math.exp(-x))),
    "erf": (X.erf, math.erf),
}
# Rounding keeps integers as they are.
_ROUND: dict[str, tuple[Callable[[Any], Any], Callable[[float], float]]] = {
    "floor": (X.floor, lambda x: float(math.floor(x))),
    "ceil": (X.ceil, lambda x: float(math.ceil(x))),
    "trunc": (X.trunc, lambda x: float(math.trunc(x))),
    "nearbyint": (X.nearbyint, lambda x: float(round(x))),
    "round": (X.nearbyint, lambda x: float(round(x))),  # T.round rounds half-way cases to even
}
_ROUNDING_MODES = ("ties-to-even", "ties-away-from-zero")
_CLASSIFY = {
    "isnan": (X.isnan, math.isnan),
    # NaN is neither equal to a number nor below one.
    "isinf": (lambda x: X.EQ(X.abs(x), _infinity(x)), math.isinf),
    "isfinite": (lambda x: X.LT(X.abs(x), _infinity(x)), math.isfinite),
}
_PYTHON = {
    "floordiv": ast.FloorDiv,
    "floormod": ast.Mod,
    "bitwise_and": ast.BitAnd,
    "bitwise_or": ast.BitOr,
    "bitwise_xor": ast.BitXor,
    "shift_left": ast.LShift,
    "shift_right": ast.RShift,
}


def evaluate(run: Run, op: str, call: Bound) -> Any:
    """The value of a scalar function `op` on bound arguments."""
    if op in ("infinity", "max_value", "min_value"):
        return _limit(run, op, call)
    if op.startswith("rng_"):
        return random_call(run, op, call)
    if is_machine_math(op):
        return machine_math(run, op, call)
    if op == "Cast":
        op = "cast"
    if op in ("cast", "reinterpret"):
        return _convert(run, op, call)
    if op in ("if_then_else", "Select"):
        return _choose(run, op, call)
    if op == "round":
        mode = call.value("rounding_mode", _ROUNDING_MODES[0])
        if isinstance(mode, Unknown):
            return mode
        if mode not in _ROUNDING_MODES:
            what = f"`rounding_mode` is {' or '.join(map(repr, _ROUNDING_MODES))}, not {mode!r}"
            return run.report(BAD_ARGUMENTS, call.span_of("rounding_mode"), callee=call.callee, what=what)
        op = "round" if mode == _ROUNDING_MODES[0] else "round_away"
        call = replace(call, arguments={"x": call.arguments["x"]})
    names = list(call.arguments)
    values = [scalar(run, call.value(n), call.span_of(n)) for n in names]
    unknown = any_unknown(values)
    if unknown is not None:
        return unknown
    for name, value in zip(names, values, strict=True):
        if not isinstance(value, ir.Expr | bool | int | float):
            return _no_number(run, call, name, value)
    try:
        return fold(compute(op, *values))
    except (TypeError, ValueError, ZeroDivisionError, OverflowError) as error:
        return run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=str(error))


def _no_number(run: Run, call: Bound, name: str, value: Any) -> Unknown:
    if run.is_unset(value):
        return run.unknown("a parameter without a value")
    what = f"`{name}` must be a number, not {named_type(value)}"
    return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)


def compute(op: str, *values: Any) -> Any:
    """A scalar function on numbers and expressions. Raises TypeError for operands it has no meaning for."""
    traced = any(isinstance(v, ir.Expr) for v in values)
    if op in _FLOAT:
        return _FLOAT[op][0](_as_float(values[0])) if traced else _FLOAT[op][1](values[0])
    if op in _ROUND:
        if not traced:
            return _ROUND[op][1](values[0])
        return _ROUND[op][0](values[0]) if is_float(dtype_of_expr(values[0])) else values[0]
    if op in _CLASSIFY:
        return _classify(op, values[0], traced)
    if op in _PYTHON:
        return binary(_PYTHON[op], *values)
    return _OTHERS[op](*values)


def _as_float(value: Any) -> Any:
    return value if is_float(dtype_of_expr(value)) else cast("float32", value)


def _classify(op: str, value: Any, traced: bool) -> Any:
    if not traced:
        return _CLASSIFY[op][1](value)
    dtype = dtype_of_expr(value)
    if not is_float(dtype):
        return op == "isfinite"
    # TIRX classifies the IEEE widths only.
    wide = (
        cast("float32", value) if element_bits(dtype) <= 16 and (dtype, op) != ("float16", "isnan") else value
    )
    return _CLASSIFY[op][0](wide)


def _infinity(like: Any) -> Any:
    return X.const(math.inf, dtype_of_expr(like))


def ceildiv(a: Any, b: Any) -> Any:
    """`a / b` rounded up, for positive operands."""
    if not isinstance(a, ir.Expr) and not isinstance(b, ir.Expr):
        return -(-a // b)
    return binary(ast.FloorDiv, binary(ast.Add, a, binary(ast.Sub, b, 1)), b)


def maximum(a: Any, b: Any) -> Any:
    """The larger operand, in their joint dtype."""
    if not isinstance(a, ir.Expr) and not isinstance(b, ir.Expr):
        return max(a, b)
    a, b, _ = match(a, b)
    return X.max(a, b)


def minimum(a: Any, b: Any) -> Any:
    """The smaller operand, in their joint dtype."""
    if not isinstance(a, ir.Expr) and not isinstance(b, ir.Expr):
        return min(a, b)
    a, b, _ = match(a, b)
    return X.min(a, b)


def absolute(value: Any) -> Any:
    """`|value|`."""
    if not isinstance(value, ir.Expr):
        return abs(value)
    return value if dtype_of_expr(value).startswith(("uint", "bool")) else X.abs(value)


def _truncated(
    kind: Callable[[Any, Any], Any], python: Callable[[int, int], int]
) -> Callable[[Any, Any], Any]:
    def apply(a: Any, b: Any) -> Any:
        if not isinstance(a, ir.Expr) and not isinstance(b, ir.Expr):
            return python(a, b)
        a, b, dtype = match(a, b)
        if is_float(dtype):
            raise TypeError("truncating division needs integers")
        return kind(a, b)

    return apply


def _pow(a: Any, b: Any) -> Any:
    if not isinstance(a, ir.Expr) and not isinstance(b, ir.Expr):
        return a**b
    return power(*match(a, b)[:2])


def _two_floats(
    make: Callable[[Any, Any], Any], python: Callable[[float, float], float]
) -> Callable[[Any, Any], Any]:
    def apply(a: Any, b: Any) -> Any:
        if not isinstance(a, ir.Expr) and not isinstance(b, ir.Expr):
            return python(a, b)
        a, b, dtype = match(a, b)
        return make(a, b) if is_float(dtype) else make(cast("float32", a), cast("float32", b))

    return apply


def _nextafter(a: Any, b: Any) -> Any:
    """Narrow floats are refused: they are computed with in float32, and its next number is no new one to
    them.
    """
    if isinstance(a, ir.Expr) or isinstance(b, ir.Expr):
        dtype = match(a, b)[2]
        if is_float(dtype) and (bits := element_bits(dtype)) < 32:
            raise TypeError(
                f"the numbers next to each other are those of float32 and float64, but the operands are "
                f"{dtype}: the next float32 rounds back to the same {dtype}; step through the bits instead, "
                f'T.reinterpret(T.reinterpret(x, "uint{bits}") + T.uint{bits}(1), "{dtype}") is the next one '
                f"away from 0"
            )
    return _two_floats(X.nextafter, math.nextafter)(a, b)


def _ldexp(x: Any, exponent: Any) -> Any:
    if not isinstance(x, ir.Expr) and not isinstance(exponent, ir.Expr):
        return math.ldexp(x, exponent)
    x = _as_float(x if isinstance(x, ir.Expr) else X.const(float(x), "float32"))
    return X.ldexp(x, cast("int32", exponent))


def _round_away(value: Any) -> Any:
    """The nearest integer, half-way cases away from 0: the fraction that truncation leaves is exact."""
    if not isinstance(value, ir.Expr):
        whole = math.trunc(value) if math.isfinite(value) else value
        return float(whole + math.copysign(1, value)) if abs(value - whole) >= 0.5 else float(whole)
    dtype = dtype_of_expr(value)
    if not is_float(dtype):
        return value
    whole, one = X.trunc(value), X.const(1.0, dtype)
    up = X.GE(X.abs(X.Sub(value, whole)), X.const(0.5, dtype))
    step = X.Select(X.LT(value, X.const(0.0, dtype)), X.Sub(whole, one), X.Add(whole, one))
    return X.Select(up, step, whole)


def _clamp(value: Any, low: Any, high: Any) -> Any:
    """Between the bounds; NaN stays NaN, which the larger or smaller of two numbers would not."""
    return _keeping_nan(minimum(_keeping_nan(maximum(value, low)), high))


def _keeping_nan(value: Any) -> Any:
    """An extreme of floats as the one that NaN passes."""
    if isinstance(value, X.Max | X.Min) and (dtype := dtype_of_expr(value)) in _KEPT:
        name = "tl.max_nan" if isinstance(value, X.Max) else "tl.min_nan"
        return X.call_intrin(dtype, name, value.a, value.b, span=value.span)
    return value


_KEPT = ("float16", "bfloat16", "float32", "float64")
_OTHERS: dict[str, Callable[..., Any]] = {
    "round_away": _round_away,
    "ceildiv": ceildiv,
    "max": maximum,
    "min": minimum,
    "abs": absolute,
    "fabs": absolute,
    "hypot": _two_floats(X.hypot, math.hypot),
    "copysign": _two_floats(X.copysign, math.copysign),
    "nextafter": _nextafter,
    "ldexp": _ldexp,
    "q_multiply_shift": multiply_shift,
    "q_multiply_shift_per_axis": multiply_shift_per_axis,
    "pow": _pow,
    "fmod": _two_floats(X.fmod, math.fmod),
    "atan2": _two_floats(X.atan2, math.atan2),
    "fma": lambda x, y, z: binary(ast.Add, binary(ast.Mult, x, y), z),
    "clamp": _clamp,
    "truncdiv": _truncated(X.truncdiv, lambda a, b: math.trunc(a / b)),
    "truncmod": _truncated(X.truncmod, lambda a, b: int(math.fmod(a, b))),
    "bitwise_not": lambda x: unary(ast.Invert, x),
}


def _limit(run: Run, op: str, call: Bound) -> Any:
    dtype = read_dtype(run, call.value("dtype"), call.span_of("dtype"))
    if isinstance(dtype, Unknown):
        return dtype
    if op == "infinity":
        if not is_float(dtype):
            what = f"{dtype} has no infinity; use T.max_value"
            return run.report(BAD_ARGUMENTS, call.span_of("dtype"), callee=call.callee, what=what)
        if (narrow := float_format(dtype)) is not None and narrow.infinity_code is None:
            what = f"{dtype} has no infinity; use T.max_value"
            return run.report(BAD_ARGUMENTS, call.span_of("dtype"), callee=call.callee, what=what)
        return X.const(math.inf, dtype)
    if (narrow := float_format(dtype)) is not None:
        lowest = -narrow.largest if narrow.sign else narrow.value(0)
        return X.const(narrow.largest if op == "max_value" else lowest, dtype)
    if dtype == "bfloat16":  # 0x7f7f; TIRX knows no limits of bfloat16
        largest = 3.3895313892515355e38
        return X.const(largest if op == "max_value" else -largest, dtype)
    return X.max_value(dtype) if op == "max_value" else X.min_value(dtype)


def convert_value(run: Run, value: Any, dtype: str, span: Span, callee: str) -> Any:
    """`T.float16(x)` and `T.cast(x, dtype)`; of a slice too, if `dtype` has as many elements."""
    if is_slice(value) and slice_length(value) == dtype_info(dtype).lanes:
        value = read_element(run, value)
    value = scalar(run, value, span)
    if isinstance(value, Unknown):
        return value
    if not isinstance(value, ir.Expr | bool | int | float):
        what = f"a number is expected, not {named_type(value)}"
        if isinstance(value, str) and value.lower().lstrip("+-") in ("inf", "infinity"):
            what += f"; write {'-' if value.startswith('-') else ''}T.infinity('{dtype}')"
        return run.report(BAD_ARGUMENTS, span, callee=callee, what=what)
    return cast(dtype, value)


def _convert(run: Run, op: str, call: Bound) -> Any:
    if op == "reinterpret" and isinstance(call.value("dtype"), str) and call.value("dtype") == "handle":
        return Unknown("a pointer without a type")  # as old-style reductions write it
    if op == "reinterpret" and isinstance(call.value("value"), DType | str):  # the other order is taken too
        swapped = {"value": call.arguments["dtype"], "dtype": call.arguments["value"]}
        call = replace(call, arguments=swapped)
    first = call.value("value")
    if op == "reinterpret" and isinstance(first, Unknown) and not looks_like_dtype(call.value("dtype")):
        return first  # either order
    dtype = read_dtype(run, call.value("dtype"), call.span_of("dtype"))
    if isinstance(dtype, Unknown):
        return dtype
    if op == "cast":
        return _cast(run, call, dtype)
    value = scalar(run, call.value("value"), call.span_of("value"))
    if isinstance(value, Unknown):
        return value
    if not isinstance(value, ir.Expr):
        what = "the bits of a Python number have no width; convert it first, as in T.float32(x)"
        return run.report(BAD_ARGUMENTS, call.span_of("value"), callee=call.callee, what=what)
    old = dtype_of_expr(value)
    bits, wanted = (dtype_info(d).bits * dtype_info(d).lanes for d in (old, dtype))  # of all lanes
    if bits != wanted:
        what = f"{old} has {bits} bits, {dtype} has {wanted}"
        return run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)
    return X.reinterpret(dtype, value)


def _cast(run: Run, call: Bound, dtype: str) -> Any:
    """`T.cast(value, dtype, round, sat)`."""
    rounding, saturating = call.value("round", ""), call.value("sat", True)
    if isinstance(rounding, Unknown) or isinstance(saturating, Unknown):
        return rounding if isinstance(rounding, Unknown) else saturating
    if rounding not in ("", "rn"):
        what = f'round={rounding!r} is not supported: conversions round to the nearest ("" or "rn")'
        return run.report(BAD_ARGUMENTS, call.span_of("round"), callee=call.callee, what=what)
    value = convert_value(run, call.value("value"), dtype, call.span_of("value"), call.callee)
    narrow = float_format(dtype)
    if saturating or narrow is None or not isinstance(value, X.Cast) or narrow.specials == "finite":
        return value
    number = cast("float32", value.value)
    size = X.abs(number)
    # The number half-way to the next one is rounded to an even mantissa.
    codes = narrow.largest_code
    step = narrow.value(codes) - narrow.value(codes - 1)
    limit = X.const(narrow.largest + step / 2, "float32")
    beyond = X.GT(size, limit) if codes % 2 == 0 else X.GE(size, limit)
    if narrow.infinity_code is None:
        instead = X.const(math.nan, dtype)
    else:
        negative = X.LT(number, X.const(0.0, "float32"))
        instead = X.Select(negative, X.const(-math.inf, dtype), X.const(math.inf, dtype))
    return X.Select(beyond, instead, value)


def _choose(run: Run, op: str, call: Bound) -> Any:
    names = list(call.arguments)
    first, *rest = names
    condition = scalar(run, call.value(first), call.span_of(first))
    guarded = op == "if_then_else"
    values = []
    for k, name in enumerate(rest):
        with condition_guard(run, condition, bool(k), call.span_of(first), guarded):
            values.append(scalar(run, call.value(name), call.span_of(name)))
    return choose(run, condition, values[0], values[1], guarded=guarded)


def condition_guard(run: Run, condition: Any, negated: bool, span: Span, active: bool = True) -> Any:
    """A context in which `condition` holds (or does not)."""
    guards = run.context.guards
    if active and isinstance(condition, ir.Expr):
        guards = (*guards, Guard(condition, negated, span, len(run.context.loops)))
    return run.guarded(guards=guards)


def choose(run: Run, condition: Any, yes: Any, no: Any, *, guarded: bool = True) -> Any:
    """`yes if condition else no` on scalars, the condition traced or not."""
    unknown = any_unknown([condition, yes, no])
    if unknown is not None:
        return unknown
    if not isinstance(condition, ir.Expr):
        return yes if condition else no
    if isinstance(yes, ir.Expr) or isinstance(no, ir.Expr):
        yes, no, _ = match(yes, no)
    elif isinstance(yes, float) or isinstance(no, float):
        yes, no = literal(float(yes)), literal(float(no))
    elif isinstance(yes, bool) and isinstance(no, bool):
        yes, no = literal(yes), literal(no)
    else:
        yes, no, _ = match(literal(int(yes)), literal(int(no)))
    make = X.if_then_else if guarded else X.Select
    return make(as_bool(condition), yes, no)
