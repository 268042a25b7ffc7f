"""Integer TIRX expressions over numpy arrays: what an index is for every thread and register at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tvm import ir
from tvm import tirx as X
from tvm.tirx.expr import CallEffectKind


class NotEvaluable(ValueError):
    """The expression reads memory or a variable without a value."""


def is_choice(expr: Any) -> bool:
    """Whether `expr` is `if_then_else(condition, yes, no)`, which evaluates one branch only."""
    return isinstance(expr, ir.Call) and isinstance(expr.op, ir.Op) and expr.op.name.endswith(".if_then_else")


def is_pure_call(call: ir.Call) -> bool:
    """Whether a call is a function of its arguments alone, as T.exp2 is; not known of calls of other code."""
    if not isinstance(call.op, ir.Op) or "extern" in call.op.name:
        return False
    return call.op.get_attr("TCallEffectKind") == CallEffectKind.Pure.value


_BINARY = {
    X.Add: np.add,
    X.Sub: np.subtract,
    X.Mul: np.multiply,
    X.FloorDiv: np.floor_divide,
    X.FloorMod: np.mod,
    X.Min: np.minimum,
    X.Max: np.maximum,
    X.LT: np.less,
    X.LE: np.less_equal,
    X.GT: np.greater,
    X.GE: np.greater_equal,
    X.EQ: np.equal,
    X.NE: np.not_equal,
    X.And: np.logical_and,
    X.Or: np.logical_or,
    X.BitwiseAnd: np.bitwise_and,
    X.BitwiseOr: np.bitwise_or,
    X.BitwiseXor: np.bitwise_xor,
    X.LShift: np.left_shift,
    X.RShift: np.right_shift,
}


def evaluate(expr: Any, env: Mapping[int, Any]) -> Any:
    """The value of `expr`; `env` maps handles of variables to integers or arrays. Raises NotEvaluable."""
    if isinstance(expr, int | np.ndarray):
        return expr
    kind = type(expr)
    if kind is X.IntImm:
        return int(expr.value)
    if kind is ir.Var:
        found = env.get(expr.__chandle__())
        if found is None:
            raise NotEvaluable(str(expr.name))
        return found
    rule = _BINARY.get(kind)
    if rule is not None:
        a, b = evaluate(expr.a, env), evaluate(expr.b, env)
        if isinstance(a, int) and isinstance(b, int) and kind in (X.FloorDiv, X.FloorMod) and b == 0:
            raise NotEvaluable("division by zero")
        return rule(a, b)
    if kind in (X.Div, X.Mod):
        a, b = evaluate(expr.a, env), evaluate(expr.b, env)
        quotient = np.fix(np.true_divide(a, b)).astype(np.int64)
        return quotient if kind is X.Div else a - quotient * b
    if kind is X.Not:
        return np.logical_not(evaluate(expr.a, env))
    if kind is X.Cast and str(expr.ty.dtype).startswith(("int", "uint")):
        number = evaluate(expr.value, env)
        return np.asarray(number).astype(np.int64) if np.asarray(number).dtype == bool else number
    if kind is X.Select:
        parts = (expr.condition, expr.true_value, expr.false_value)
        return np.where(*(evaluate(p, env) for p in parts))
    if is_choice(expr):
        return np.where(*(evaluate(p, env) for p in expr.args))
    raise NotEvaluable(str(expr))
