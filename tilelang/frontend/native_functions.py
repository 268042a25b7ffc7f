"""Functions of running Python as ones to interpret: their source, closure, defaults and annotations."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import types
from collections import ChainMap
from collections.abc import Callable
from typing import Any

from tilelang.frontend.model import Function
from tilelang.frontend.scope import Scope
from tilelang.frontend.source import live_source
from tilelang.language.surroundings import surroundings

# Attribute of a live function: its annotations as Python evaluated them.
NATIVE_ANNOTATIONS = "__annotations__"


class SourceNotFound(ValueError):
    """The text of a function cannot be read, so it cannot be interpreted."""


def live_function(function: Callable[..., Any]) -> Function:
    """A function of running Python as one to interpret. Raises SourceNotFound."""
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None:
        raise SourceNotFound(f"`{function!r}` is no Python function, so its source cannot be read")
    lines = linecache.getlines(code.co_filename)
    if not lines:
        raise SourceNotFound(f"the source of `{function.__name__}` ({code.co_filename}) cannot be read")
    source = live_source(code.co_filename, "".join(lines))
    node = _definition(source.tree, function.__name__, code.co_firstlineno)
    if node is None:
        raise SourceNotFound(f"the definition of `{function.__name__}` is not found in {code.co_filename}")
    args = node.args
    named = [*args.posonlyargs, *args.args]
    given = function.__defaults__ or ()
    defaults = {a.arg: v for a, v in zip(reversed(named), reversed(given), strict=False)}
    defaults |= function.__kwdefaults__ or {}
    interpreted = Function(function.__name__, node, source, _native_scope(function), defaults)
    # Python has evaluated the annotations where the function was defined; names in them need not be in its
    # closure.
    interpreted.attributes[NATIVE_ANNOTATIONS] = dict(function.__annotations__)
    interpreted.qualified_name = getattr(function, "__qualname__", function.__name__)
    return interpreted


def _native_scope(function: Callable[..., Any]) -> Scope:
    """Closure cells, globals and builtins of a function as a scope."""
    cells: dict[str, Any] = {}
    code: types.CodeType = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        try:
            cells[name] = cell.cell_contents
        except ValueError:
            continue  # not bound yet
    around = dict(surroundings(function))
    names: Any = ChainMap(cells, around, function.__globals__, dict(vars(builtins)))
    return Scope(names=names)


def _definition(tree: ast.Module, name: str, line: int) -> ast.FunctionDef | ast.Lambda | None:
    """The definition whose first line (that of the first decorator) is `line`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == line:
                return node
        elif isinstance(node, ast.Lambda) and name == "<lambda>" and node.lineno == line:
            return node
    return None
