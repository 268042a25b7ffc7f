"""What a decorator makes of an interpreted function: a macro, a kernel, or something unknown."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from tilelang.frontend.arguments import Argument
from tilelang.frontend.dtypes import dtype_name
from tilelang.frontend.model import UNBOUND, Function, JitFunction, PrimFunction
from tilelang.frontend.python.functions import call_function
from tilelang.frontend.run import Run
from tilelang.ir.values import Unknown
from tilelang.language import inline, macro, meta_class, prim_func
from tilelang.language.dtypes import DType


@dataclass(frozen=True)
class Decorator:
    """`tilelang.jit` or `tilelang.autotune`, bare or called with options."""

    name: str
    options: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class PlainDecorator:
    """A decorator that leaves the function as it is: `staticmethod`, `functools.cache`,
    `functools.wraps(f)`.
    """

    name: str


def decorated(run: Run, node: ast.FunctionDef, function: Function) -> Any:
    """Apply decorators from the innermost outwards."""
    value: Any = function
    for item in reversed(node.decorator_list):
        value = _apply(run, item, value)
    return value


def decorate_value(run: Run, decorator: Any, args: list[Argument]) -> Any:
    """`T.prim_func(f)`, `T.macro(f)`, and the parentheses of `@T.macro()`."""
    if not args:
        return decorator
    value = args[0].value
    if decorator in (macro, inline) and isinstance(value, Function):
        value.is_macro = True
        value.attributes[UNBOUND] = decorator is macro
        return value
    if decorator is meta_class:
        return value
    if decorator is prim_func and isinstance(value, Function):
        return PrimFunction(value)
    if isinstance(decorator, type) and issubclass(decorator, DType):
        name = dtype_name(value)
        return DType(name) if name else Unknown("the dtype is not known")
    return Unknown("what this makes is not known to the compiler")


def _decorated_by(run: Run, node: ast.expr, decorator: Function, value: Function) -> Any:
    """What a decorator of the module's own makes: a kernel, if it passes the function to `tilelang.jit`."""
    before = len(run.made_kernels)
    at = run.span(node)
    made = call_function(run, decorator, [Argument(value, at)], {}, node, at)
    if isinstance(made, JitFunction):
        return made
    kernels = [k for k in run.made_kernels[before:] if k.function is value]
    if kernels:
        return kernels[-1]  # a wrapper around it passes on what it is called with
    return Unknown(f"the decorator `{decorator.name}` is not applied by the compiler")


def _apply(run: Run, node: ast.expr, value: Any) -> Any:
    decorator = run.eval(node)
    if decorator in (macro, inline, prim_func):
        return decorate_value(run, decorator, [Argument(value, run.span(node))])
    if isinstance(decorator, Decorator):
        if isinstance(value, JitFunction):
            value.decorators[decorator.name] = decorator.options
            return value
        if isinstance(value, Function):
            return JitFunction(value, {decorator.name: decorator.options})
        return value
    if isinstance(decorator, PlainDecorator) or decorator in (staticmethod, classmethod, property):
        function = value.function if isinstance(value, JitFunction) else value
        if isinstance(function, Function):
            function.attributes[getattr(decorator, "name", getattr(decorator, "__name__", ""))] = True
        return value
    if isinstance(value, JitFunction | PrimFunction):
        return value
    if isinstance(decorator, Function) and isinstance(value, Function) and run.environment.static:
        return _decorated_by(run, node, decorator, value)
    if isinstance(decorator, Function):
        return Unknown(f"the decorator `{decorator.name}` is not applied by the compiler")
    return Unknown("the decorator is not known to the compiler")
