"""`with T.If(c): with T.Then(): ... with T.Else(): ...` and `with T.While(c):`, read as `if` and `while`."""

from __future__ import annotations

import ast

from tilelang.diagnostics.rules.python import UNSUPPORTED_PYTHON
from tilelang.frontend.model import Flow
from tilelang.frontend.python.branches import if_statement
from tilelang.frontend.python.discovery import resolve
from tilelang.frontend.python.loops import while_statement
from tilelang.frontend.run import Run
from tilelang.language.branch_builders import Else, If, Then, While


def is_branch_builder(run: Run, item: ast.withitem) -> bool:
    """Whether an item of `with` opens one of these."""
    called = item.context_expr
    return isinstance(called, ast.Call) and resolve(called.func, run.scope) in (If, Then, Else, While)


def one_by_one(node: ast.With) -> ast.With:
    """`with a, b: ...` as `with a: with b: ...`."""
    if len(node.items) == 1:
        return node
    inner = ast.copy_location(ast.With(node.items[1:], node.body), node)
    return ast.copy_location(ast.With(node.items[:1], [inner]), node)


def branch_builder(run: Run, node: ast.With) -> Flow | None:
    """The statement that `with` stands for."""
    node = one_by_one(node)
    called = node.items[0].context_expr
    assert isinstance(called, ast.Call)
    kind = resolve(called.func, run.scope)
    if kind is Then or kind is Else:
        return _refuse(run, called, f"T.{kind.__name__} stands outside `with T.If(...)`")
    given = [*called.args, *(k.value for k in called.keywords)]
    if len(given) != 1 or isinstance(given[0], ast.Starred):
        return _refuse(run, called, f"T.{kind.__name__} takes one condition")
    if node.items[0].optional_vars is not None:
        return _refuse(run, called, f"T.{kind.__name__} gives nothing that a name could stand for")
    if kind is While:
        return while_statement(run, ast.copy_location(ast.While(given[0], node.body, []), node), built=True)
    branches: dict[object, list[ast.stmt]] = {}
    for part in node.body:
        opened = _opened(run, part)
        if opened is None or opened in branches or (opened is Else and Then not in branches):
            return _refuse(run, called, "T.If holds one `with T.Then()`, then maybe one `with T.Else()`")
        branches[opened] = one_by_one(part).body  # type: ignore[arg-type]
    if Then not in branches:
        return _refuse(run, called, "T.If holds one `with T.Then()`, then maybe one `with T.Else()`")
    made = ast.If(given[0], branches[Then], branches.get(Else, []))
    return if_statement(run, ast.copy_location(made, node), built=True)


def _opened(run: Run, node: ast.stmt) -> object | None:
    """Then or Else, where a statement opens one."""
    if not isinstance(node, ast.With):
        return None
    called = node.items[0].context_expr
    found = resolve(called.func, run.scope) if isinstance(called, ast.Call) else None
    return found if found is Then or found is Else else None


def _refuse(run: Run, at: ast.expr, what: str) -> None:
    run.report(UNSUPPORTED_PYTHON, run.span(at), what=what)
