"""Functions of a module that running Python calls itself when a kernel is compiled, although the static
environment interprets them: generators and functions with `while`, which mean something else in a kernel.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tilelang.frontend.model import Function, Instance, ModuleValue
from tilelang.frontend.python.generators import all_items
from tilelang.frontend.python.plain_functions import needs_kernel
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_traced
from tilelang.frontend.scope import Scope
from tilelang.ir.tile_program import Context


def runs_in_python(run: Run, function: Function) -> bool:
    """Whether the call whose scope is now `run.scope` is none of the kernel's: it gets nothing of the kernel,
    the function is not defined there and mentions none of its operations.
    """
    if not run.environment.static or function.is_macro:
        return False
    if not is_generator(function) and (run.launch is None or not _has(function, ast.While)):
        return False
    scope: Scope | None = function.closure
    while scope is not None and (run.launch is None or scope is not run.signature.node_scope):
        scope = scope.parent
    if scope is not None or any(map(_holds_traced, run.scope.names.values())):
        return False
    return not _mentions_kernel(function, set())


@contextmanager
def outside_kernel(run: Run) -> Iterator[None]:
    """What is interpreted is no part of the kernel around."""
    saved = run.launch, run.regions
    run.launch, run.regions = None, []
    try:
        with run.nested([], Context(maybe=run.context.maybe)):
            yield
    finally:
        run.launch, run.regions = saved


def is_generator(function: Function) -> bool:
    return _has(function, ast.Yield, ast.YieldFrom)


def generated(run: Run, function: Function) -> Any:
    """The elements of a generator, all at once."""
    assert isinstance(function.node, ast.FunctionDef)
    body, saved = function.node.body, run.on_yield

    def produce(collect: Callable[[Any], None]) -> None:
        run.on_yield = collect
        run.exec(body)

    try:
        return all_items(run, function.name, produce)
    finally:
        run.on_yield = saved


def _has(function: Function, *kinds: type[ast.AST]) -> bool:
    """Whether the body itself holds such a node, not a function inside it. Kept with the function."""
    key = f"__has_{kinds[0].__name__}__"
    found = function.attributes.get(key)
    if found is None:
        pending: list[ast.AST] = []
        node = function.node
        lines, word = function.source.lines[node.lineno - 1 : node.end_lineno], kinds[0].__name__.lower()
        if isinstance(node, ast.FunctionDef) and any(word in line for line in lines):
            pending.extend(node.body)
        found = False
        while pending and not found:
            node = pending.pop()
            found = isinstance(node, kinds)
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
                pending.extend(ast.iter_child_nodes(node))
        function.attributes[key] = found
    return found


def _mentions_kernel(function: Function, seen: set[int]) -> bool:
    """Whether it, or a function that it names, names operations of the kernel or macros."""
    if id(function.node) in seen:
        return False
    seen.add(id(function.node))
    for node in ast.walk(function.node):
        value: Any = None
        if isinstance(node, ast.Name):
            value = function.closure.find(node.id)[1]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = function.closure.find(node.value.id)[1]
            if isinstance(owner, types.ModuleType):
                value = getattr(owner, node.attr, None)
            elif isinstance(owner, ModuleValue):
                value = owner.names.get(node.attr)
        if isinstance(value, Function):
            if value.is_macro or _mentions_kernel(value, seen):
                return True
        elif not isinstance(value, types.ModuleType) and needs_kernel(value):
            return True
    return False


def _holds_traced(value: Any) -> bool:
    return any_traced(list(value.attributes.values()) if isinstance(value, Instance) else value)
