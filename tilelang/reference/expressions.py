"""Values of TIRX expressions for many lanes at once: numpy arrays, floats in float64, integers exact.

A value is a scalar array (the same for all lanes) or has one entry per lane. Choices and short circuits
evaluate each side only for the lanes that take it, so that what guards an access also guards it here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tvm import ir
from tvm import tirx as X

from tilelang.ir.evaluate import is_choice
from tilelang.ir.math_ops import read_ieee
from tilelang.reference.errors import NoMeaning, ReferenceFailure
from tilelang.reference.memory import is_float, numpy_dtype, rounded

Load = Callable[[Any, np.ndarray], np.ndarray]  # (TensorLoad, active lanes) -> values
Call = Callable[[Any, np.ndarray], Any]


def dtype_of(expr: Any) -> str:
    """The dtype of a scalar expression, `float32`."""
    return str(expr.ty.dtype) if hasattr(expr.ty, "dtype") else str(expr.ty)


def _nonzero(b: Any) -> Any:
    return np.where(np.asarray(b) == 0, 1, b)


_BINARY: Mapping[type, Callable[[Any, Any], Any]] = {
    X.Add: np.add,
    X.Sub: np.subtract,
    X.Mul: np.multiply,
    X.Min: np.fmin,
    X.Max: np.fmax,
    X.LT: np.less,
    X.LE: np.less_equal,
    X.GT: np.greater,
    X.GE: np.greater_equal,
    X.EQ: np.equal,
    X.NE: np.not_equal,
    X.BitwiseAnd: np.bitwise_and,
    X.BitwiseOr: np.bitwise_or,
    X.BitwiseXor: np.bitwise_xor,
    X.LShift: np.left_shift,
    X.RShift: np.right_shift,
}
_INTEGER_DIVISION: Mapping[type, Callable[[Any, Any], Any]] = {
    X.FloorDiv: np.floor_divide,
    X.FloorMod: np.mod,
    X.Mod: np.fmod,
}
_COMPARES = (X.LT, X.LE, X.GT, X.GE, X.EQ, X.NE)

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _bits(x: Any) -> np.ndarray:
    """The bits of integers, the highest first, along a further axis."""
    array = np.asarray(x)
    ordered = np.ascontiguousarray(array.astype(array.dtype.newbyteorder(">")))
    return np.unpackbits(ordered.view(np.uint8).reshape(*array.shape, -1), axis=-1)


def popcount(x: Any) -> Any:
    """Bits that are set; numpy has it since version 2 only."""
    return _bits(x).sum(axis=-1)


def leading_zeros(x: Any) -> Any:
    """Bits above the highest that is set; all of them for 0."""
    return (np.maximum.accumulate(_bits(x), axis=-1) == 0).sum(axis=-1)


def lowest_bit(x: Any) -> Any:
    """The number of the lowest bit that is set, from 1 on; 0 for 0."""
    array = np.asarray(x)
    set_up_to = _bits(array ^ (array - 1)).sum(axis=-1)
    return np.where(array == 0, 0, set_up_to)


# Functions by the name behind the dot of their operation.
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: np.power(10.0, x),
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": _erf,
    "fabs": np.abs,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": lambda x: np.trunc(x + np.copysign(0.5, x)),
    "nearbyint": np.rint,
    "rint": np.rint,
    "pow": np.power,
    "fmod": np.fmod,
    "fma": lambda a, b, c: a * b + c,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "bitwise_not": np.invert,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
    "popcount": popcount,
    "clz": leading_zeros,
    "copysign": np.copysign,
    "nextafter": lambda x, y: np.nextafter(x, y).astype(np.float64),
    "hypot": np.hypot,
    "ldexp": lambda x, n: x * np.power(2.0, n),
    "likely": lambda x: x,
    "ffs": lowest_bit,
    "ffs_64": lowest_bit,
    # Approximations as what they approximate, and before any rounding.
    "fast_exp": np.exp,
    "fast_exp10": lambda x: np.power(10.0, x),
    "fast_log": np.log,
    "fast_log2": np.log2,
    "fast_log10": np.log10,
    "fast_sin": np.sin,
    "fast_cos": np.cos,
    "fast_tan": np.tan,
    "fast_rcp": np.reciprocal,
    "ieee_add": np.add,
    "ieee_sub": np.subtract,
    "ieee_mul": np.multiply,
    "ieee_fdiv": np.divide,
    "ieee_fmaf": lambda a, b, c: a * b + c,
    "ieee_frcp": np.reciprocal,
    "ieee_fsqrt": np.sqrt,
    "ieee_frsqrt": lambda x: 1 / np.sqrt(x),
    "ldg": lambda x: x,
    "max_nan": np.maximum,
    "min_nan": np.minimum,
    "max": np.fmax,
    "min": np.fmin,
}


class Expressions:
    """Evaluates under a set of active lanes. `values` maps variables (by handle) to what they hold."""

    def __init__(self, load: Load, call: Call) -> None:
        self.values: dict[int, np.ndarray] = {}
        self._load, self._call = load, call

    def value(self, expr: Any, active: np.ndarray) -> Any:
        """The value of `expr` for the lanes in `active`; other lanes hold anything."""
        kind = type(expr)
        if kind is X.IntImm:
            return np.asarray(int(expr.value)).astype(numpy_dtype(dtype_of(expr)))
        if kind is X.FloatImm:
            return rounded(float(expr.value), dtype_of(expr)).astype(np.float64)
        if kind is ir.Var:
            return self.values[expr.__chandle__()]
        if kind is ir.TensorLoad:
            return self._load(expr, active)
        if kind in _BINARY:
            a, b = self.value(expr.a, active), self.value(expr.b, active)
            with np.errstate(all="ignore"):
                found = _BINARY[kind](a, b)
            return found if kind in _COMPARES else self._typed(found, expr)
        if kind in _INTEGER_DIVISION:
            return self._division(expr, _INTEGER_DIVISION[kind], active)
        if kind is X.Div:
            return self._divide(expr, active)
        if kind is X.And or kind is X.Or:
            return self._logical(expr, kind is X.And, active)
        if kind is X.BitwiseNot:
            return self._typed(np.invert(self.value(expr.a, active)), expr)
        if kind is X.Not:
            return np.logical_not(self.value(expr.a, active))
        if kind is X.Cast:
            return self._cast(self.value(expr.value, active), dtype_of(expr))
        if kind is X.Select:
            return self._choice(expr.condition, expr.true_value, expr.false_value, active)
        if kind is ir.Call:
            return self._function(expr, active)
        raise NoMeaning(f"the reference does not know the expression {kind.__name__}: {expr}")

    def integer(self, expr: Any, active: np.ndarray) -> int:
        """The value that all active lanes agree on. Raises ReferenceFailure if they do not."""
        if isinstance(expr, int):
            return expr
        found = np.asarray(self.value(expr, active))
        chosen = np.unique(found if found.ndim == 0 else np.broadcast_to(found, active.shape)[active])
        if chosen.size > 1:
            raise ReferenceFailure(f"{expr} differs between threads where the whole block needs one value")
        return int(chosen.flat[0]) if chosen.size else 0

    def _typed(self, found: Any, expr: Any) -> Any:
        """Integers wrap around in their dtype, floats stay exact until stored."""
        dtype = dtype_of(expr)
        return found if is_float(dtype) else np.asarray(found).astype(numpy_dtype(dtype))

    def _cast(self, value: Any, dtype: str) -> Any:
        narrow = rounded(value, dtype)
        return narrow.astype(np.float64) if is_float(dtype) else narrow

    def _division(self, expr: Any, function: Callable[[Any, Any], Any], active: np.ndarray) -> Any:
        a, b = self.value(expr.a, active), self.value(expr.b, active)
        with np.errstate(all="ignore"):
            if is_float(dtype_of(expr)):
                return function(a, b)
            return self._typed(function(a, _nonzero(b)), expr)

    def _divide(self, expr: Any, active: np.ndarray) -> Any:
        a, b = self.value(expr.a, active), self.value(expr.b, active)
        with np.errstate(all="ignore"):
            if is_float(dtype_of(expr)):
                return np.divide(a, b)
            # C's division: towards zero, exact for every 64-bit number
            b = _nonzero(b)
            floor, rest = np.floor_divide(a, b), np.mod(a, b)
            return self._typed(floor + ((rest != 0) & ((np.asarray(a) < 0) != (np.asarray(b) < 0))), expr)

    def _logical(self, expr: Any, both: bool, active: np.ndarray) -> Any:
        first = np.asarray(self.value(expr.a, active), bool)
        asked = active & (first if both else ~first)
        if not asked.any():
            return first
        second = np.asarray(self.value(expr.b, asked), bool)
        return first & second if both else first | second

    def _choice(self, condition: Any, yes: Any, no: Any, active: np.ndarray) -> Any:
        chosen = np.asarray(self.value(condition, active), bool)
        takes_yes, takes_no = active & chosen, active & ~chosen
        if not takes_no.any():
            return self.value(yes, takes_yes)
        if not takes_yes.any():
            return self.value(no, takes_no)
        return np.where(chosen, self.value(yes, takes_yes), self.value(no, takes_no))

    def _function(self, expr: Any, active: np.ndarray) -> Any:
        if is_choice(expr):
            condition, yes, no = expr.args
            return self._choice(condition, yes, no, active)
        name = str(expr.op.name) if isinstance(expr.op, ir.Op) else str(expr.op)
        directed = read_ieee(name)
        short = name.rpartition(".")[2] if directed is None else directed[0]
        if name.startswith("tl.") and short not in FUNCTIONS:
            return self._call(expr, active)
        if short == "reinterpret":
            return self._reinterpret(expr, active)
        function = FUNCTIONS.get(short)
        if function is None:
            raise NoMeaning(f"the reference does not know the function {short}")
        dtype = dtype_of(expr)
        args = [self.value(a, active) for a in expr.args]
        if short == "nextafter":  # the numbers of the dtype, unlike those of all other results
            args = [rounded(a, dtype) for a in args]
        with np.errstate(all="ignore"):
            found = function(*args)
        return found if is_float(dtype) else np.asarray(found).astype(numpy_dtype(dtype))

    def _reinterpret(self, expr: Any, active: np.ndarray) -> Any:
        """The bits of a value under another dtype of the same width."""
        source = expr.args[-1]
        bits = np.ascontiguousarray(rounded(self.value(source, active), dtype_of(source)))
        found = bits.view(numpy_dtype(dtype_of(expr))).reshape(bits.shape)
        return found.astype(np.float64) if is_float(dtype_of(expr)) else found
