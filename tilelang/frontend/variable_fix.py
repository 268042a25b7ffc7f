"""The quick fix that turns a name which changes in a loop or branch into a T.alloc_var."""

from __future__ import annotations

import ast
from typing import Any

from tvm import ir

from tilelang.diagnostics.problem import Edit, Fix
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import dtype_of_expr
from tilelang.frontend.scope import Scope
from tilelang.ir.values import Buffer

_LITERALS: dict[type, str] = {bool: "bool", int: "int32", float: "float32"}


def variable_fix(run: Run, scope: Scope, name: str, before: Any) -> tuple[Fix, ...]:
    """`total = 0.0` becomes `total = T.alloc_var("float32", init=0.0)`, where that is the first binding of
    the name and its dtype is known.
    """
    prefix, dtype = run.language_prefix(), _dtype(before)
    if prefix is None or dtype is None or scope.function is None:
        return ()
    place = scope.locals.get(name)
    if place is None or place.path != run.source.path:
        return ()
    for node in ast.walk(scope.function.node):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1 or node.lineno != place.line:
            continue
        target = node.targets[0]
        if isinstance(target, ast.Name) and target.id == name and run.span(target) == place:
            value = run.span(node.value)
            if value.line != value.end_line:
                return ()
            new = f'{prefix}.alloc_var("{dtype}", init={run.text_of(value)})'
            return (Fix(f"Keep `{name}` in a variable: {new}", (Edit(value, new),)),)
    return ()


def _dtype(value: Any) -> str | None:
    if isinstance(value, ir.Expr) and not isinstance(value, Buffer):
        dtype = dtype_of_expr(value)
        return None if dtype == "handle" else dtype
    return _LITERALS.get(type(value))
