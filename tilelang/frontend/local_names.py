"""Which names Python makes local to a function: those bound anywhere in its body."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tilelang.diagnostics.span import Span
from tilelang.frontend.source import Source

_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def assigned_names(source: Source, statements: list[ast.stmt]) -> dict[str, Span]:
    """Names that the statements bind, with the first place of each. Nested functions keep their own."""
    found: dict[str, Span] = {}
    for statement in statements:
        for name, node in _bindings(statement):
            if name not in found:
                found[name] = source.span(node)
    return found


def _bindings(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Store | ast.Del):
            yield node.id, node
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name, node
        return
    if isinstance(node, ast.Lambda | ast.Constant):
        return
    if isinstance(node, _COMPREHENSIONS):
        return
    if isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            yield (alias.asname or alias.name.partition(".")[0]), node
        return
    if isinstance(node, ast.ExceptHandler) and node.name:
        yield node.name, node
    if isinstance(node, ast.AnnAssign) and node.value is None:
        # `A: T.Tensor(...)` declares the parameter A; `x: int` alone binds nothing but makes x local.
        if isinstance(node.target, ast.Name):
            yield node.target.id, node.target
        return
    for child in ast.iter_child_nodes(node):
        yield from _bindings(child)


def declared_outer(statements: list[ast.stmt]) -> tuple[set[str], set[str]]:
    """Names declared `global` and `nonlocal` in a function body."""
    globals_: set[str] = set()
    nonlocals: set[str] = set()
    stack: list[ast.AST] = list(statements)
    while stack:
        node = stack.pop()
        if isinstance(node, _OWN_SCOPE):
            continue
        if isinstance(node, ast.Global):
            globals_.update(node.names)
        elif isinstance(node, ast.Nonlocal):
            nonlocals.update(node.names)
        elif isinstance(node, ast.stmt):
            stack.extend(c for c in ast.iter_child_nodes(node) if isinstance(c, ast.stmt | ast.ExceptHandler))
        elif isinstance(node, ast.ExceptHandler):
            stack.extend(node.body)
    return globals_, nonlocals
