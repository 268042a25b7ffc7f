"""The quick fix that makes an update of an element atomic: `B[i] += x` -> `T.atomic_add(B[i], x)`."""

from __future__ import annotations

import ast

from tilelang.diagnostics.problem import Edit
from tilelang.diagnostics.span import Span, lines_of
from tilelang.parsing import parse

_MOST_LINES = 12
_FOLDS = {"max": "max", "min": "min"}


def atomic_edit(statement: Span, source: str, language: str) -> tuple[str, Edit] | None:
    """The kind of update (add, max, min) and the edit; None if what begins at a span is no such update.

    language: how the file calls the language, `T`.
    """
    whole = _statement(statement, source)
    found = None if whole is None else _update(whole[0])
    if whole is None or found is None:
        return None
    kind, target, value = found
    base = target.value if isinstance(target, ast.Subscript) else target
    if ast.unparse(base) in {
        ast.unparse(n) for n in ast.walk(value) if isinstance(n, ast.Name | ast.Attribute)
    }:
        return None  # another element of the same buffer would be read while others write
    new = f"{language}.atomic_{kind}({ast.unparse(target)}, {ast.unparse(value)})"
    return kind, Edit(whole[1], new)


def _statement(start: Span, source: str) -> tuple[ast.stmt, Span] | None:
    """The one statement from where a span begins to the end of a line, over as many lines as it takes."""
    lines = list(lines_of(start, source)[start.line - 1 : start.line - 1 + _MOST_LINES])
    if not lines:
        return None
    lines[0] = lines[0][start.column - 1 :]
    for count in range(1, len(lines) + 1):
        try:
            body = parse("\n".join(lines[:count])).body
        except SyntaxError:
            continue
        if len(body) != 1 or not lines[count - 1].isascii():
            return None  # ast counts bytes
        last, behind = body[0].end_lineno or count, body[0].end_col_offset or 0
        column = behind + (start.column if last == 1 else 1)
        return body[0], Span(start.path, start.line, start.column, start.line + last - 1, column)
    return None


def _update(node: ast.stmt) -> tuple[str, ast.expr, ast.expr] | None:
    if isinstance(node, ast.AugAssign):
        return ("add", node.target, node.value) if isinstance(node.op, ast.Add) else None
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return None
    target, value = node.targets[0], node.value
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        return _with("add", target, [value.left, value.right])
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and len(value.args) == 2:
        kind = _FOLDS.get(value.func.attr)
        return None if kind is None or value.keywords else _with(kind, target, value.args)
    return None


def _with(kind: str, target: ast.expr, parts: list[ast.expr]) -> tuple[str, ast.expr, ast.expr] | None:
    """The other part, where one of two is the target itself."""
    own = [ast.unparse(p) == ast.unparse(target) for p in parts]
    return (kind, target, parts[own.index(False)]) if own.count(True) == 1 else None
