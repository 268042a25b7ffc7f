"""same-operands: both operands of a subtraction, a division or a comparison are written alike.

The text decides, not the value: two names that happen to stand for one offset under these parameters are no
mistake. Calls with an effect (random numbers) may give two values for one text. `x != x`, `x == x`,
`x <= x` and `x >= x` ask whether a float is NaN.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any

from tvm import ir

from tilelang.diagnostics.rules.python import SAME_ARGUMENTS, SAME_BRANCHES, SAME_OPERANDS, SAME_PLACES
from tilelang.diagnostics.span import Span
from tilelang.frontend.operators import SYMBOLS
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import dtype_of_expr
from tilelang.ir.evaluate import is_pure_call
from tilelang.ir.prove import operands_of
from tilelang.ir.values import Buffer, Region

_RESULTS: Mapping[type[ast.AST], str] = {
    ast.Sub: "0",
    ast.Div: "1",
    ast.FloorDiv: "1",
    ast.Mod: "0",
    ast.BitXor: "0",
    ast.Lt: "false",
    ast.Gt: "false",
    ast.NotEq: "false",
    ast.LtE: "true",
    ast.GtE: "true",
    ast.Eq: "true",
}
_COMPARED = {ast.Lt: "<", ast.Gt: ">", ast.NotEq: "!=", ast.LtE: "<=", ast.GtE: ">=", ast.Eq: "=="}
_FUNCTIONS = frozenset(
    ("abs", "astype", "cast", "ceildiv", "exp", "exp2", "log", "log2", "max", "min", "rsqrt", "sqrt", "tanh")
)
_NAN_TESTS = (ast.Eq, ast.NotEq, ast.LtE, ast.GtE)
_NAN_STAYS = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod)


def note_same_operands(
    run: Run,
    kind: type[ast.AST],
    left: Any,
    left_node: ast.expr,
    right_node: ast.expr,
) -> None:
    """Of `left op right`, where `left` is a value of the running kernel."""
    if kind not in _RESULTS or not isinstance(left, ir.Expr) or not _alike(left_node, right_node):
        return
    is_float = "float" in str(dtype_of_expr(left))
    if not _is_one_value(left) or (kind in _NAN_TESTS and is_float):
        return
    symbol = _COMPARED.get(kind) or SYMBOLS[kind]
    run.report(
        SAME_OPERANDS,
        run.span(right_node),
        operand=_text(run, right_node),
        symbol=symbol,
        result=f"{_RESULTS[kind]} or NaN" if is_float and kind in _NAN_STAYS else _RESULTS[kind],
    )


def note_same_arguments(run: Run, node: ast.Call, name: str, value: Any) -> None:
    """Of `T.max(x, x)`."""
    if name not in ("max", "min") or len(node.args) != 2 or node.keywords:
        return
    if isinstance(value, ir.Expr) and _alike(*node.args) and _is_one_value(value):
        run.report(
            SAME_ARGUMENTS, run.span(node.args[1]), operand=_text(run, node.args[1]), symbol=f"T.{name}"
        )


def note_same_branches(run: Run, condition: Any, yes: ast.expr, no: ast.expr, value: Any) -> None:
    """Of `x if condition else x` and T.if_then_else, decided when the kernel runs."""
    if not isinstance(condition, ir.Expr) or not isinstance(value, ir.Expr) or not _alike(yes, no):
        return
    if _is_one_value(value):
        run.report(SAME_BRANCHES, run.span(no), operand=_text(run, no))


def note_same_places(run: Run, target: ast.expr, value: ast.expr, span: Span) -> None:
    """Of `a[i] = a[i]` and T.copy(a, a), with the arguments as they are written."""
    if isinstance(value, ast.Subscript | ast.Name) and _alike(target, value):
        run.report(SAME_PLACES, span, operand=_text(run, value))


def is_place(value: Any) -> bool:
    """Whether a value is a buffer or a part of one."""
    return isinstance(value, Buffer | Region)


def _alike(left: ast.expr, right: ast.expr) -> bool:
    return type(left) is type(right) and ast.unparse(left) == ast.unparse(right) and _is_plain(left)


def _is_plain(node: ast.expr) -> bool:
    """Whether only functions of numbers are called in it."""
    called = [n.func for n in ast.walk(node) if isinstance(n, ast.Call)]
    return all(isinstance(f, ast.Attribute) and f.attr in _FUNCTIONS for f in called)


def _is_one_value(value: ir.Expr) -> bool:
    """Whether evaluating it twice gives one value."""
    if isinstance(value, ir.Call) and not is_pure_call(value):
        return False
    return all(_is_one_value(part) for part in _parts(value))


def _parts(value: ir.Expr) -> Iterable[ir.Expr]:
    if isinstance(value, ir.Var):
        return ()
    return (part for part in operands_of(value) if isinstance(part, ir.Expr))


def _text(run: Run, node: ast.expr) -> str:
    return ast.get_source_segment(run.source.text, node) or ast.unparse(node)
