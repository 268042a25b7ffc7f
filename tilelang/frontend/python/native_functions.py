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
    node = _definition(source.tree, function.__name__, code)
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


def _definition(tree: ast.Module, name: str, code: types.CodeType) -> ast.FunctionDef | ast.Lambda | None:
    """The definition whose first line (that of the first decorator) is that of `code`."""
    line, lambdas = code.co_firstlineno, []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == line:
                return node
        elif isinstance(node, ast.Lambda) and name == "<lambda>" and node.lineno == line:
            lambdas.append(node)
    if len({ast.dump(node) for node in lambdas}) > 1:
        return _lambda_of(lambdas, code)
    return lambdas[0] if lambdas else None


def _lambda_of(found: list[ast.Lambda], code: types.CodeType) -> ast.Lambda | None:
    """Which of several lambdas in a line `code` is: the innermost around all its instructions.

    None where the text is no longer the one that `code` was made of. Raises SourceNotFound where Python
    (3.10) does not say in which columns instructions stand.
    """
    positions = getattr(code, "co_positions", None)
    if positions is None:
        raise SourceNotFound(
            f"line {code.co_firstlineno} of {code.co_filename} has several lambdas, and Python 3.10 does not "
            "say which one is meant: write one in a line, or a def"
        )
    starts, ends = [], []
    for line, end_line, column, end_column in positions():
        if None not in (line, end_line, column, end_column) and (line, column) != (end_line, end_column):
            starts.append((line, column))
            ends.append((end_line, end_column))
    around = [
        node
        for node in found
        if (node.lineno, node.col_offset) <= min(starts)
        and max(ends) <= (node.end_lineno, node.end_col_offset)
    ]
    return max(around, key=lambda node: (node.lineno, node.col_offset), default=None)
