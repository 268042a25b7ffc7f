"""Which names Python makes local to a function: those bound anywhere in its body."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tilelang.diagnostics.span import Span
from tilelang.frontend.source import Source

_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def assigned_names(source: Source, statements: Sequence[ast.AST]) -> dict[str, Span]:
    """Names that the statements bind, with the first place of each. Nested functions keep their own."""
    found: dict[str, ast.AST] = {}
    walrus = source.has_walrus
    for statement in statements:
        _bindings(statement, found, walrus)
    return {name: source.span(node) for name, node in found.items()}


def _bindings(node: ast.AST, found: dict[str, ast.AST], walrus: bool) -> None:
    """Add what one statement (or assignment target) binds, in the order of the text."""
    match node:
        case ast.Assign():
            for target in node.targets:
                _bindings(target, found, walrus)
        case ast.Name():
            found.setdefault(node.id, node)
        case ast.Tuple() | ast.List():
            for element in node.elts:
                _bindings(element, found, walrus)
        case ast.Starred():
            _bindings(node.value, found, walrus)
        case ast.AugAssign() | ast.AnnAssign():
            # `A: T.Tensor(...)` declares the parameter A; `x: int` alone binds nothing but makes x local.
            _bindings(node.target, found, walrus)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            found.setdefault(node.name, node)
            return
        case ast.Import() | ast.ImportFrom():
            for alias in node.names:
                found.setdefault(alias.asname or alias.name.partition(".")[0], node)
        case ast.Delete():
            for target in node.targets:
                _bindings(target, found, walrus)
        case ast.For() | ast.AsyncFor():
            _bindings(node.target, found, walrus)
        case ast.With() | ast.AsyncWith():
            for item in node.items:
                if item.optional_vars is not None:
                    _bindings(item.optional_vars, found, walrus)
        case ast.ExceptHandler():
            if node.name:
                found.setdefault(node.name, node)
        case ast.MatchAs() | ast.MatchStar():
            if node.name:
                found.setdefault(node.name, node)
    if isinstance(node, ast.Match):
        for case in node.cases:
            for inner in ast.walk(case.pattern):
                if isinstance(inner, ast.MatchAs | ast.MatchStar):
                    _bindings(inner, found, walrus)
            for statement in case.body:
                _bindings(statement, found, walrus)
    for part in ("body", "handlers", "orelse", "finalbody"):
        for statement in getattr(node, part, ()) if isinstance(node, ast.stmt | ast.ExceptHandler) else ():
            _bindings(statement, found, walrus)
    if walrus and isinstance(node, ast.stmt):
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                found.setdefault(inner.target.id, inner.target)


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
