"""`operator.add(A[i], B[i])` and its kin: what the operator itself means, in files and in running Python."""

from __future__ import annotations

import ast
import operator
from collections.abc import Mapping
from typing import Any

from tilelang.frontend.arguments import Argument
from tilelang.frontend.python.expressions import apply_binary, apply_unary, compare_values
from tilelang.frontend.run import Run

_BINARY: Mapping[Any, type[ast.operator]] = {
    operator.add: ast.Add,
    operator.sub: ast.Sub,
    operator.mul: ast.Mult,
    operator.truediv: ast.Div,
    operator.floordiv: ast.FloorDiv,
    operator.mod: ast.Mod,
    operator.pow: ast.Pow,
    operator.lshift: ast.LShift,
    operator.rshift: ast.RShift,
    operator.and_: ast.BitAnd,
    operator.or_: ast.BitOr,
    operator.xor: ast.BitXor,
    operator.matmul: ast.MatMult,
}
_COMPARE: Mapping[Any, type[ast.cmpop]] = {
    operator.eq: ast.Eq,
    operator.ne: ast.NotEq,
    operator.lt: ast.Lt,
    operator.le: ast.LtE,
    operator.gt: ast.Gt,
    operator.ge: ast.GtE,
    operator.is_: ast.Is,
    operator.is_not: ast.IsNot,
}
_UNARY: Mapping[Any, type[ast.unaryop]] = {
    operator.neg: ast.USub,
    operator.pos: ast.UAdd,
    operator.invert: ast.Invert,
    operator.not_: ast.Not,
}
OPERATOR_FUNCTIONS: Mapping[Any, int] = {
    **dict.fromkeys((*_BINARY, *_COMPARE), 2),
    **dict.fromkeys(_UNARY, 1),
}
"""The functions that stand for an operator -> how many operands it has."""


def call_operator(run: Run, node: ast.Call, function: Any, args: list[Argument]) -> Any:
    """The operator on the values of `args`, of which there are as many as it has operands."""
    left = args[0].value
    if function in _UNARY:
        return apply_unary(run, node, _UNARY[function], left, _written(node, 0, args))
    right = args[1].value
    places = _written(node, 0, args), _written(node, 1, args)
    if function in _BINARY:
        return apply_binary(run, node, _BINARY[function], left, places[0], right, places[1])
    return compare_values(run, node, _COMPARE[function](), left, places[0], right, places[1], chained=False)


def _written(node: ast.Call, k: int, args: list[Argument]) -> ast.expr:
    """Where operand `k` is written: the call itself if that cannot be told."""
    plain = len(node.args) == len(args) and not any(isinstance(a, ast.Starred) for a in node.args)
    return node.args[k] if plain else node
