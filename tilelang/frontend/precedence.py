"""comparison-precedence: `i < M & j < N`, where `&` takes `M & j` and the comparisons what is left.

numpy and torch taught authors to combine conditions by `&`, which wants brackets around each. Silent about
bit masks (`0 < flags & 7 < 4`), and where brackets stand around the operation already.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tilelang.diagnostics.problem import Edit, Fix
from tilelang.diagnostics.rules.python import COMPARISON_PRECEDENCE
from tilelang.diagnostics.span import Span
from tilelang.frontend.run import Run

_SYMBOLS = {ast.BitAnd: "&", ast.BitOr: "|"}
_WORDS = {ast.BitAnd: "and", ast.BitOr: "or"}
_ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_CONDITIONS = (ast.Compare, ast.BoolOp)


def note_precedence(run: Run, node: ast.Compare) -> None:
    """Once for a comparison of the running kernel."""
    if run.launch is None:
        return
    for operation in _taken_apart(run, node):
        symbol, word = _SYMBOLS[type(operation.op)], _WORDS[type(operation.op)]
        run.report(
            COMPARISON_PRECEDENCE,
            run.span(operation),
            fixes=_fix(run, node, operation, word),
            symbol=symbol,
            word=word,
            taken=ast.unparse(operation),
        )
        return


def _taken_apart(run: Run, node: ast.Compare) -> Iterator[ast.BinOp]:
    """Operations on bits without brackets of their own whose operands belong to two comparisons."""
    operands = [node.left, *node.comparators]
    for k, operand in enumerate(operands):
        if not isinstance(operand, ast.BinOp) or type(operand.op) not in _SYMBOLS:
            continue
        between = 0 < k < len(node.ops)
        ordered = between and all(isinstance(op, _ORDERED) for op in node.ops[k - 1 : k + 1])
        masks = isinstance(operand.left, ast.Constant) or isinstance(operand.right, ast.Constant)
        whole = any(isinstance(o, _CONDITIONS) for o in (operand.left, operand.right))
        if (whole or (ordered and not masks)) and not _in_brackets(run, operand):
            yield operand


def _in_brackets(run: Run, node: ast.expr) -> bool:
    """Whether brackets stand directly around an expression. The first operand's brackets are its own."""
    lines = run.source.lines
    if not 0 < node.lineno <= (node.end_lineno or node.lineno) <= len(lines):
        return True
    before = lines[node.lineno - 1].encode()[: node.col_offset].decode().rstrip()
    after = lines[(node.end_lineno or node.lineno) - 1].encode()[node.end_col_offset :].decode().lstrip()
    return before.endswith("(") and after.startswith(")")


def _fix(run: Run, node: ast.Compare, operation: ast.BinOp, word: str) -> tuple[Fix, ...]:
    """`and` in place of `&`, in a chain of two comparisons on one line."""
    left, right = run.span(operation.left), run.span(operation.right)
    if len(node.ops) != 2 or left.end_line != right.line or isinstance(operation.left, ast.BinOp):
        return ()
    between = Span(left.path, left.line, left.end_column, right.line, right.column)
    return (Fix(f"Use `{word}`", (Edit(between, f" {word} "),)),)
