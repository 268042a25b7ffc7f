"""`import` statements: the environment says what a module is; in the live environment Python imports it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Any

from tilelang.frontend.deprecated import RENAMED
from tilelang.frontend.model import NO_VALUE, Flow, ModuleValue
from tilelang.frontend.names import bind_name
from tilelang.frontend.python.attributes import unknown_language_name
from tilelang.frontend.run import Run
from tilelang.ir.values import Unknown

LANGUAGE_MODULE = "tilelang.language"
# Kernels for one kind of target may import it by another name; it is the same module.
LANGUAGE_MODULES = frozenset(
    {LANGUAGE_MODULE, *(f"tilelang.{kind}.language" for kind in ("cpu", "cuda", "rocm", "metal"))}
)


_LATE = re.compile(r"(?:^[ \t]+|[:;][ \t]*)(?:import|from)\b")
_BLOCKS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.If)


def may_import_late(text: str) -> bool:
    """Whether an import may stand in a function. Far cheaper than looking at the tree, or at every line."""
    lines = text.splitlines() if "import" in text else []
    return any("import" in line and _LATE.search(line) for line in lines)


def late_imports(statements: Iterable[ast.stmt]) -> Iterator[tuple[str, int]]:
    """(module, level) of the imports inside functions and classes: they run when those are called."""
    for node in (n for s in statements if isinstance(s, _BLOCKS) for n in ast.walk(s)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            name = node.module or ""
            yield name, node.level
            yield from ((f"{name}.{alias.name}" if name else alias.name, node.level) for alias in node.names)


def import_statement(run: Run, node: ast.Import) -> Flow | None:
    """`import a.b`, `import a.b as c`."""
    for alias in node.names:
        if alias.asname:
            value = run.environment.module(run, alias.name, 0)
            bind_name(run, alias.asname, value, run.span(node))
        else:
            top, *inner = alias.name.split(".")
            module = run.environment.module(run, top, 0)
            bind_name(run, top, module, run.span(node))
            _import_inner(run, module, top, inner)
    return None


def _import_inner(run: Run, module: Any, name: str, inner: list[str]) -> None:
    """`import a.b.c`: what is read of the workspace becomes an attribute of the package it is in."""
    for part in inner:
        name = f"{name}.{part}"
        found = run.environment.module(run, name, 0)
        if not isinstance(module, ModuleValue) or not isinstance(found, ModuleValue):
            return
        if module.of_workspace and isinstance(module.names, dict):
            module.names.setdefault(part, found)
        module = found


def import_from_statement(run: Run, node: ast.ImportFrom) -> Flow | None:
    """`from a.b import c as d`, `from a.b import *`."""
    name = node.module or ""
    module = run.environment.module(run, name, node.level)
    for alias in node.names:
        if alias.name == "*":
            _star(run, node, module)
            continue
        value = member(run, module, alias.name)
        renamed = RENAMED.get(alias.name) if name in LANGUAGE_MODULES else None
        if value is NO_VALUE and renamed is not None:  # which `old_names` reports
            value = member(run, module, renamed.name)
        if value is NO_VALUE:
            inner = f"{name}.{alias.name}" if name else alias.name
            value = run.environment.module(run, inner, node.level)
            if isinstance(value, Unknown) and name in LANGUAGE_MODULES:
                at = run.span(alias) if hasattr(alias, "lineno") else run.span(node)
                value = unknown_language_name(run, alias.name, at, name)
        bind_name(run, alias.asname or alias.name, value, run.span(node))
    return None


def member(run: Run, module: Any, name: str) -> Any:
    """A name of a module; NO_VALUE if it is not known to have it."""
    if isinstance(module, ModuleValue):
        return module.names.get(name, NO_VALUE)
    if isinstance(module, Unknown):
        return module
    return getattr(module, name, NO_VALUE)


def _star(run: Run, node: ast.ImportFrom, module: Any) -> None:
    if isinstance(module, Unknown):
        run.open_scopes.add(id(run.scope))
        return
    names = module.names if isinstance(module, ModuleValue) else vars(module)
    exported = names.get("__all__")
    if not isinstance(exported, list | tuple):
        exported = [n for n in names if not n.startswith("_")]
    for name in exported:
        if isinstance(name, str) and name in names:
            bind_name(run, name, names[name], run.span(node))
    if isinstance(module, ModuleValue) and module.open:
        run.open_scopes.add(id(run.scope))
