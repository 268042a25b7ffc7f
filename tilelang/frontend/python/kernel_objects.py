"""Objects of Python classes whose attributes belong to the kernel: their methods are interpreted, not run.

A class counts if `T.meta_class` marks it, or if its `__init__` or what it is given holds something of the
kernel. Attributes stay ordinary Python attributes of the object; one that holds an `alloc_var` is assigned by
a store. The language's own classes (`T.PersistentTileScheduler`) are known in the editor too.
"""

from __future__ import annotations

import ast
import linecache
import types
from collections.abc import Callable
from typing import Any

import tvm_ffi

from tilelang import language
from tilelang.frontend.arguments import Argument
from tilelang.frontend.model import NO_VALUE, ClassValue
from tilelang.frontend.python.functions import call_function, needs_interpretation
from tilelang.frontend.python.native_functions import SourceNotFound, live_function
from tilelang.frontend.python.plain_functions import holds_kernel_code
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_traced
from tilelang.ir.values import Unknown
from tilelang.language.functions import Inline, InlineMethod, is_meta_class

_OWN = "tilelang.language"
Arguments = tuple[list[Argument], dict[str, Argument]]


def is_own_class(value: Any) -> bool:
    """Whether a class is one of the language's own, such as a tile scheduler."""
    return isinstance(value, type) and is_meta_class(value) and _is_ours(value)


def _is_ours(cls: type) -> bool:
    return cls.__module__.startswith(_OWN)


def is_kernel_object(value: Any) -> bool:
    """Whether a Python object, or the one that a `super()` is about, holds something of the kernel."""
    if isinstance(value, super):
        value = getattr(value, "__self__")  # noqa: B009 (checkers do not know that it has one)
    if isinstance(value, type | types.ModuleType | types.FunctionType):
        return False
    held = getattr(value, "__dict__", None)
    return isinstance(held, dict) and (is_meta_class(type(value)) or any_traced(held))


def _is_own_static(function: Any) -> bool:
    """Whether a function is a static method of one of the language's classes."""
    if not isinstance(function, types.FunctionType) or not function.__module__.startswith(_OWN):
        return False
    owner = getattr(language, function.__qualname__.partition(".")[0], None)
    return is_own_class(owner) and isinstance(vars(owner).get(function.__name__), staticmethod)


def own_class(cls: type) -> ClassValue:
    """One of the language's classes as an interpreted one, for classes of the user's that come from it."""
    names: dict[str, Any] = {}
    made = ClassValue(cls.__name__, names, tuple(own_class(b) for b in cls.__bases__ if b is not object))
    for name, value in vars(cls).items():
        function = value.fget if isinstance(value, property) else value
        if not isinstance(function, types.FunctionType):
            if not name.startswith("__"):
                names[name] = value
            continue
        names[name] = interpreted = live_function(function)
        interpreted.is_macro = True
        interpreted.attributes["__class__"] = made
        if isinstance(value, property):
            interpreted.attributes["property"] = True
    return made


def method_of_kernel(function: Any) -> bool:
    """Whether calling `function` means interpreting it because of the object or decorator it comes from."""
    if isinstance(function, Inline | InlineMethod) or _is_own_static(function):
        return True
    return (
        isinstance(function, types.MethodType)
        and isinstance(function.__func__, types.FunctionType)
        and is_kernel_object(function.__self__)
    )


def call_method(
    run: Run, node: ast.Call, function: Any, args: list[Argument], kwargs: dict[str, Argument]
) -> Any:
    """The interpreted call of what `method_of_kernel` says yes to."""
    if isinstance(function, Inline):
        return _interpret(run, node, function.function, args, kwargs)
    if isinstance(function, types.FunctionType):
        return _interpret(run, node, function, args, kwargs)
    owner = function.owner if isinstance(function, InlineMethod) else function.__self__
    inner = function.function if isinstance(function, InlineMethod) else function.__func__
    return _interpret(run, node, inner, [Argument(owner, run.span(node)), *args], kwargs)


def call_own_function(
    run: Run, node: ast.Call, function: Callable[..., Any], args: list[Argument], kwargs: dict[str, Argument]
) -> Any:
    """The interpreted call of a function of the language that is written in the language."""
    return _interpret(run, node, function, args, kwargs)


def makes_kernel_object(run: Run, cls: Any, args: list[Argument], kwargs: dict[str, Argument]) -> bool:
    """Whether an object of `cls` must be made by interpreting its `__init__`."""
    if not isinstance(cls, type) or run.launch is None or issubclass(cls, tvm_ffi.Object):
        return False  # (nodes of TVM make themselves)
    init = cls.__init__
    if not isinstance(init, types.FunctionType) or not linecache.getlines(init.__code__.co_filename):
        return False  # made by C code, or generated as dataclasses do: Python can run it
    return is_meta_class(cls) or needs_interpretation(args, kwargs) or holds_kernel_code(init)


def make_object(
    run: Run, node: ast.Call, cls: type, args: list[Argument], kwargs: dict[str, Argument]
) -> Any:
    """An object of `cls`, its `__init__` interpreted."""
    made: Any = object.__new__(cls)
    result = _interpret(run, node, cls.__init__, [Argument(made, run.span(node)), *args], kwargs)
    return result if isinstance(result, Unknown) else made


def kernel_attribute(run: Run, node: ast.Attribute, owner: Any) -> Any:
    """`owner.name` of a kernel object: properties are interpreted. NO_VALUE if it does not exist."""
    found = next((vars(c)[node.attr] for c in type(owner).__mro__ if node.attr in vars(c)), None)
    if isinstance(found, property) and isinstance(found.fget, types.FunctionType | Inline):
        getter = found.fget.function if isinstance(found.fget, Inline) else found.fget
        return _interpret(run, node, getter, [Argument(owner, run.span(node.value))], {})
    return getattr(owner, node.attr, NO_VALUE)


def _interpret(
    run: Run,
    node: ast.AST,
    function: Callable[..., Any],
    args: list[Argument],
    kwargs: dict[str, Argument],
) -> Any:
    try:
        interpreted = live_function(function)
    except SourceNotFound as error:
        return Unknown(str(error))
    interpreted.is_macro = True  # what stands in it may put statements into the kernel
    if function.__module__.startswith(_OWN):  # the author sees the call, and no file of this package
        interpreted.source = interpreted.source.standing_at(run.span(node), run.source)
    return call_function(run, interpreted, args, kwargs, node, run.span(node))
