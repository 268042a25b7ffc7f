"""Statements that hold what follows them in their block, as the `with` that they stand for."""

from __future__ import annotations

import ast


def as_with(statements: list[ast.stmt], index: int) -> ast.With | None:
    """`T.launch_thread(...)` as a statement, or `bx = T.launch_thread(...)`: a `with` around what follows."""
    node = statements[index]
    called = node.value if isinstance(node, ast.Expr | ast.Assign) else None
    if not isinstance(called, ast.Call):
        return None
    name = called.func.attr if isinstance(called.func, ast.Attribute) else getattr(called.func, "id", None)
    if name != "launch_thread" or index + 1 == len(statements):
        return None
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    return ast.copy_location(ast.With([ast.withitem(called, target)], statements[index + 1 :]), node)
