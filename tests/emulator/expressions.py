"""TIRX expressions for all threads of a block at once: one numpy value per thread, or one per thread and
vector lane.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import ir
from tvm import tirx as X

from tests.emulator.memory import numpy_dtype
from tilelang.arch.float_formats import FORMATS
from tilelang.ir.math_ops import FFS, LDG, NAN_KEEPING
from tilelang.reference.expressions import FUNCTIONS, leading_zeros, popcount

Load = Callable[[Any, Any, np.ndarray], np.ndarray]  # (buffer, index expression, mask) -> values
Call = Callable[[Any, np.ndarray], Any]


def dtype_of(expr: Any) -> str:
    """The element dtype of an expression: `float16` for `float16x8`."""
    return str(expr.ty.dtype).partition("x")[0]


def _floor_div(a: Any, b: Any) -> Any:
    return np.floor_divide(a, np.where(np.asarray(b) == 0, 1, b))


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    X.Add: np.add,
    X.Sub: np.subtract,
    X.Mul: np.multiply,
    X.FloorDiv: _floor_div,
    X.FloorMod: lambda a, b: np.mod(a, np.where(np.asarray(b) == 0, 1, b)),
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

# Functions that the reference computes otherwise, or in wider numbers; for the others it is asked.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "isnan": np.isnan,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "sin": np.sin,
    "cos": np.cos,
    "fabs": np.abs,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": lambda x: np.trunc(x + np.copysign(np.asarray(0.5, x.dtype), x)),
    "nearbyint": np.rint,
    "pow": np.power,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "popcount": popcount,
    "clz": leading_zeros,
    "bitwise_xor": np.bitwise_xor,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
    "likely": lambda x: x,
}


def _function_named(name: str) -> Callable[..., Any]:
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    known = name.removesuffix("_rn")
    if known not in FUNCTIONS:
        raise NotImplementedError(name)
    return FUNCTIONS[known]


class Expressions:
    """Evaluates expressions under a mask of active threads; loads and `tl.*` calls are answered by the
    block.
    """

    def __init__(self, threads: int, load: Load, call: Call) -> None:
        self.threads = threads
        self.values: dict[int, Any] = {}  # variable -> value
        self._load, self._call = load, call

    def value(self, expr: Any, mask: np.ndarray) -> Any:
        """Array of [threads] (or [threads, lanes]) in the expression's dtype."""
        kind = type(expr)
        if kind in (X.IntImm, X.FloatImm):
            return numpy_dtype(dtype_of(expr)).type(expr.value)
        if kind is ir.Var:
            return self.values[expr.__chandle__()]
        if kind is ir.TensorLoad:
            return self._load(expr.source, expr.indices[0], mask)
        if kind in _BINARY:
            with np.errstate(all="ignore"):
                return _BINARY[kind](*self._pair(expr.a, expr.b, mask))
        if kind in (X.And, X.Or):
            return self._logical(expr, kind is X.And, mask)
        if kind is X.BitwiseNot:
            return np.invert(self.value(expr.a, mask))
        if kind is X.Not:
            return np.logical_not(self.value(expr.a, mask))
        if kind is X.Cast:
            return self._cast(self.value(expr.value, mask), dtype_of(expr))
        if kind is X.Div:
            return self._divide(expr, mask)
        if kind is X.Mod:  # of integers it has the sign of the dividend, as in C
            return np.fmod(*self._pair(expr.a, expr.b, mask))
        if kind is X.Broadcast:
            return self.value(expr.value, mask)
        if kind is X.Ramp:
            base = np.broadcast_to(np.asarray(self.value(expr.base, mask)), (self.threads,))
            step = int(np.asarray(self.value(expr.stride, mask)).flat[0])
            return base[:, None] + np.arange(int(expr.lanes)) * step
        if kind is X.Select:
            parts = [self.value(p, mask) for p in (expr.condition, expr.true_value, expr.false_value)]
            return np.where(*parts)
        if kind is ir.Call:
            return self._function(expr, mask)
        raise NotImplementedError(f"{kind.__name__}: {expr}")

    def _pair(self, a: Any, b: Any, mask: np.ndarray) -> tuple[Any, Any]:
        return self.value(a, mask), self.value(b, mask)

    def _logical(self, expr: Any, both: bool, mask: np.ndarray) -> Any:
        """The right side is evaluated only where the left does not decide."""
        first = np.broadcast_to(np.asarray(self.value(expr.a, mask), bool), (self.threads,))
        left = mask & (first if both else ~first)
        second = np.asarray(self.value(expr.b, left), bool) if left.any() else first
        return first & second if both else first | second

    def _divide(self, expr: Any, mask: np.ndarray) -> Any:
        a, b = self._pair(expr.a, expr.b, mask)
        with np.errstate(all="ignore"):
            if dtype_of(expr).startswith(("float", "bfloat")):
                return np.divide(a, b)
            return np.fix(np.divide(a, np.where(np.asarray(b) == 0, 1, b))).astype(
                numpy_dtype(dtype_of(expr))
            )

    def _cast(self, value: Any, dtype: str) -> Any:
        array = np.asarray(value)
        narrow = FORMATS.get(dtype)
        with np.errstate(all="ignore"):
            if narrow is not None:  # saturated
                array = np.clip(array.astype(np.float32), -narrow.largest, narrow.largest)
            return array.astype(numpy_dtype(dtype))

    def _function(self, expr: Any, mask: np.ndarray) -> Any:
        name = str(expr.op.name)
        if name == LDG:
            return self.value(expr.args[0], mask)
        plain = name in (*NAN_KEEPING, *FFS.values()) or name.startswith(("tl.fast_", "tl.ieee_"))
        if name.startswith("tl.") and not plain:
            return self._call(expr, mask)
        name = name.partition(".")[2]
        if name == "if_then_else":
            condition, yes, no = expr.args
            return self._choice(condition, yes, no, mask)
        if name == "reinterpret":
            value = np.ascontiguousarray(self.value(expr.args[-1], mask))
            return value.view(numpy_dtype(dtype_of(expr)))
        function = _function_named(name)
        args = [self.value(a, mask) for a in expr.args]
        with np.errstate(all="ignore"):
            result = function(*args)
        return np.asarray(result).astype(numpy_dtype(dtype_of(expr)))

    def _choice(self, condition: Any, yes: Any, no: Any, mask: np.ndarray) -> Any:
        chosen = np.broadcast_to(np.asarray(self.value(condition, mask), bool), (self.threads,))
        a, b = self.value(yes, mask & chosen), self.value(no, mask & ~chosen)
        if max(np.ndim(a), np.ndim(b)) == 2:
            a, b = (x[:, None] if np.ndim(x) == 1 else x for x in (a, b))
            return np.where(chosen[:, None], a, b)
        return np.where(chosen, a, b)
