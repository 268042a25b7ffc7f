"""Which functions of a module are kernels: decorators resolved through whatever names they were imported
under.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

from tilelang.frontend.model import NO_VALUE, JitFunction, ModuleValue
from tilelang.frontend.python.decorators import Decorator
from tilelang.frontend.scope import Scope
from tilelang.language import prim_func


@dataclass(frozen=True, eq=False)
class Found:
    """A kernel's definition. `outer` are the functions around it, from outside in."""

    node: ast.FunctionDef
    qualified_name: str
    style: Literal["eager", "lazy"]
    outer: tuple[ast.FunctionDef, ...]
    owner: str | None  # the top-level class of a method


def find_kernels(tree: ast.Module, scope: Scope) -> list[Found]:
    """All kernels in the order of the text: decorated ones, prim_funcs at the top level, factories of
    prim_funcs.
    """
    return list(_find(tree.body, scope, "", ()))


def _find(
    body: list[ast.stmt], scope: Scope, prefix: str, outer: tuple[ast.FunctionDef, ...]
) -> Iterator[Found]:
    wrapped = _passed_to(body, scope, _is_jit)
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield from _function(node, scope, prefix, outer, node.name in wrapped)
        elif isinstance(node, ast.ClassDef):
            yield from _find(node.body, scope, f"{prefix}{node.name}.", outer)
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While):
            for part in ("body", "orelse", "finalbody"):
                yield from _find(getattr(node, part, []), scope, prefix, outer)
            for handler in getattr(node, "handlers", []):
                yield from _find(handler.body, scope, prefix, outer)


def _function(
    node: ast.FunctionDef, scope: Scope, prefix: str, outer: tuple[ast.FunctionDef, ...], wrapped: bool
) -> Iterator[Found]:
    name = f"{prefix}{node.name}"
    owner = prefix.removesuffix(".") if prefix and not outer else None
    inner_functions = list(_nested(node))
    makes_prim = any(_is_prim(inner, scope) for inner in inner_functions)
    if inner_functions and not makes_prim:
        passed = _passed_to(node.body, scope, lambda value: value is prim_func)
        makes_prim = any(inner.name in passed for inner in inner_functions)
    made = scope.names.get(node.name) if not prefix and node.decorator_list else None
    under_jit = isinstance(made, JitFunction) and made.function.node is node
    if wrapped or under_jit or any(_is_jit(resolve(d, scope)) for d in node.decorator_list):
        yield Found(node, name, "lazy" if makes_prim else "eager", outer, owner)
        return
    if _is_prim(node, scope) or makes_prim:
        yield Found(node, name, "lazy", outer, owner)
        return
    yield from _find(node.body, scope, f"{name}.", (*outer, node))


def _nested(node: ast.FunctionDef) -> Iterator[ast.FunctionDef]:
    """Functions defined in the body itself, not in functions that are kernels by themselves."""
    stack: list[ast.AST] = list(node.body)
    while stack:
        item = stack.pop()
        if isinstance(item, ast.FunctionDef):
            yield item
        elif isinstance(item, ast.If | ast.For | ast.While | ast.With | ast.Try | ast.ExceptHandler):
            for part in ("body", "handlers", "orelse", "finalbody"):
                stack.extend(getattr(item, part, ()))


def _passed_to(body: list[ast.stmt], scope: Scope, wanted: Callable[[Any], bool]) -> set[str]:
    """Names of functions that statements pass on: `kernel = tilelang.jit(f)`, `return T.prim_func(main)`."""
    found: set[str] = set()
    for statement in body:
        value = statement.value if isinstance(statement, ast.Assign | ast.Return | ast.AnnAssign) else None
        while isinstance(value, ast.Call) and value.args:
            if isinstance(value.args[0], ast.Name) and wanted(resolve(value.func, scope)):
                found.add(value.args[0].id)
            value = value.args[0]
    return found


def _is_prim(node: ast.FunctionDef, scope: Scope) -> bool:
    return any(resolve(d, scope) is prim_func for d in node.decorator_list)


def _is_jit(value: Any) -> bool:
    return isinstance(value, Decorator) and value.name == "jit"


def resolve(node: ast.expr, scope: Scope) -> Any:
    """What a decorator is, without evaluating its arguments; NO_VALUE if that is not known."""
    if isinstance(node, ast.Call):
        return resolve(node.func, scope)
    if isinstance(node, ast.Name):
        return scope.find(node.id)[1]
    if isinstance(node, ast.Attribute):
        owner = resolve(node.value, scope)
        if isinstance(owner, ModuleValue):
            return owner.names.get(node.attr, NO_VALUE)
        if isinstance(owner, ModuleType) and owner.__name__.startswith("tilelang.language"):
            return getattr(owner, node.attr, NO_VALUE)
    return NO_VALUE
