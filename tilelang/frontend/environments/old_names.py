"""Old names of the language anywhere in a module: at its top level, in imports, in annotations, in functions
that no kernel calls. What kernels reach, the interpreter reports too, in the same words.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator, Set

from tilelang import language
from tilelang.diagnostics.problem import Edit, Fix, Problem
from tilelang.diagnostics.rules.python import UNKNOWN_LANGUAGE_NAME
from tilelang.diagnostics.span import Span
from tilelang.frontend.deprecated import GONE, MOVED, RENAMED, gone_problem, moved_import, renamed_problem
from tilelang.frontend.not_supported import is_not_supported
from tilelang.frontend.python.imports import LANGUAGE_MODULE, LANGUAGE_MODULES
from tilelang.frontend.scope import Scope
from tilelang.frontend.source import Source
from tilelang.frontend.suggest import hint, nearest
from tilelang.language.names import LANGUAGE

_OLD = frozenset({*RENAMED, *(module for module, _ in MOVED)})
_WRITTEN = re.compile(rf"\b({'|'.join(map(re.escape, sorted(_OLD)))})\b")

_LINE_END = re.compile(r"\r\n|\n|\r")


def old_names(source: Source, tree: ast.Module, scope: Scope) -> list[Problem]:
    """Problems for names behind `T.` and for imported ones. Names that are bound anew anywhere in the module,
    say as a parameter, are left alone.
    """
    likely = any(name in source.text for name in _OLD)  # the search is slow to say that none is
    written = [m.start() for m in _WRITTEN.finditer(source.text)] if likely else []
    missing = list(_missing_imports(source, tree))
    if not written:
        return missing
    statements = list(_statements_at(source, tree, written))
    imports = [n for s in tree.body for n in ast.walk(s) if isinstance(n, ast.ImportFrom)]
    rebound = _rebound(tree)
    modules = {n for n, v in scope.names.items() if getattr(v, "__name__", None) == LANGUAGE_MODULE}
    found = missing
    for statement in statements:
        for node in ast.walk(statement):
            if not isinstance(node, ast.Attribute) or node.attr not in RENAMED:
                continue
            if _is_language(node.value, modules - rebound):
                at = _last_part(source.span(node), node.attr)
                found.append(renamed_problem(node.attr, at, ast.unparse(node.value)))
    for node in imports:
        if node.module in LANGUAGE_MODULES and not node.level:
            found += _imported(source, tree, node, rebound)
        found += moved_import(source, node)
    return found


def _statements_at(source: Source, tree: ast.Module, offsets: list[int]) -> Iterator[ast.stmt]:
    """The statements of the top level with a name at one of the offsets, each once."""
    starts = [0, *(m.end() for m in _LINE_END.finditer(source.text))]
    lines = {bisect_right(starts, offset) for offset in offsets}
    for statement in tree.body:
        decorators = getattr(statement, "decorator_list", [])
        first = min([statement.lineno, *(d.lineno for d in decorators)])
        if any(first <= line <= (statement.end_lineno or first) for line in lines):
            yield statement


def _is_language(node: ast.expr, modules: Set[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in modules
    return isinstance(node, ast.Attribute) and ast.unparse(node) in LANGUAGE_MODULES


def _last_part(span: Span, name: str) -> Span:
    return Span(span.path, span.end_line, span.end_column - len(name), span.end_line, span.end_column)


def _rebound(tree: ast.Module) -> set[str]:
    """Names that something other than an import binds."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
    return found


def _missing_imports(source: Source, tree: ast.Module) -> Iterator[Problem]:
    """`from tilelang.language import gemmm`: names that no release has. Only of imports that stand by
    themselves: one in a `try` may be meant to fail.
    """
    for node in tree.body:
        if not isinstance(node, ast.ImportFrom) or node.module not in LANGUAGE_MODULES or node.level:
            continue
        for alias in node.names:
            at = source.span(alias)
            at = Span(at.path, at.line, at.column, at.line, at.column + len(alias.name))
            if alias.name in GONE:
                yield gone_problem(alias.name, at, LANGUAGE_MODULE)
                continue
            near = nearest(alias.name, LANGUAGE)
            known = alias.name == "*" or alias.name in RENAMED or hasattr(language, alias.name)
            if known or near is None or is_not_supported(alias.name):
                continue
            edits = _renaming(source, tree, alias, near, _rebound(tree))
            yield UNKNOWN_LANGUAGE_NAME.at(
                at,
                fixes=(Fix(f"Change to `{near}`", edits),),
                module=LANGUAGE_MODULE,
                name=alias.name,
                hint=hint(near, f"{LANGUAGE_MODULE}."),
            )


def _imported(source: Source, tree: ast.Module, node: ast.ImportFrom, rebound: Set[str]) -> Iterator[Problem]:
    """`from tilelang.language import symbolic`: renamed with all its uses, unless it has a name of its own or
    is bound anew.
    """
    for alias in node.names:
        renamed = RENAMED.get(alias.name)
        if renamed is None:
            continue
        whole = source.span(alias)
        at = Span(whole.path, whole.line, whole.column, whole.line, whole.column + len(alias.name))
        edits = _renaming(source, tree, alias, renamed.name, rebound)
        fix = Fix(f"Rename to `{renamed.name}`", edits)
        yield renamed_problem(alias.name, at, "", (fix,))


def _renaming(
    source: Source, tree: ast.Module, alias: ast.alias, name: str, rebound: Set[str]
) -> tuple[Edit, ...]:
    """Import `name` instead, and say so at all uses; where either name is bound anew, under the old name."""
    whole = source.span(alias)
    at = Span(whole.path, whole.line, whole.column, whole.line, whole.column + len(alias.name))
    uses = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == alias.name]
    if alias.asname is not None:
        return (Edit(at, name),)
    if uses and {alias.name, name} & rebound:
        return (Edit(at, f"{name} as {alias.name}"),)
    return (Edit(at, name), *(Edit(source.span(use), name) for use in uses))
