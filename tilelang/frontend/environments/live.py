"""The live environment: kernels of running Python, with its real globals, closures and argument values."""

from __future__ import annotations

import ast
import builtins
import collections
import functools
import importlib
import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.rules.python import UNSUPPORTED_PYTHON
from tilelang.frontend.arguments import Argument
from tilelang.frontend.environments.kernel import KernelRequest, trace_kernel, trace_prim_function
from tilelang.frontend.model import NO_VALUE, UNBOUND, Function, Late
from tilelang.frontend.python.functions import call_function, needs_interpretation
from tilelang.frontend.python.interpreter import new_run
from tilelang.frontend.python.kernel_objects import make_object, makes_kernel_object
from tilelang.frontend.python.native_functions import SourceNotFound, live_function
from tilelang.frontend.python.plain_functions import holds_kernel_code
from tilelang.frontend.run import Limits, Run
from tilelang.frontend.scalars import any_unknown, kept, scalar
from tilelang.frontend.scope import Scope
from tilelang.ir.prove import substitute
from tilelang.ir.tile_program import TileProgram
from tilelang.ir.values import Buffer, Region, Unknown
from tilelang.language.functions import KernelFunction, Macro

# Running Python has no step limit either; this one only ends what would never end.
_LIMITS = Limits(steps=50_000_000, depth=200, sequence=10_000_000)


@dataclass(frozen=True)
class ConstSource:
    """Where the value of a T.const comes from: entry `axis` of the shape or strides of a tensor argument."""

    name: str
    parameter: str
    where: Literal["shape", "strides"]
    axis: int
    dtype: str = ""  # of the argument as declared: of some dtypes two elements share a byte


class LiveEnvironment:
    """Names, attributes and calls are Python's own."""

    static = False

    def global_name(self, run: Run, scope: Scope, name: str) -> Any:
        return NO_VALUE

    def global_names(self, scope: Scope) -> list[str]:
        return dir(builtins)

    def module(self, run: Run, name: str, level: int) -> Any:
        """An import inside a kernel: Python imports it. Relative imports are resolved by the module
        around.
        """
        if level:
            return Unknown("a relative import inside a kernel is not known to the compiler")
        try:
            return importlib.import_module(name)
        except ImportError:
            return Unknown(f"`{name}` cannot be imported")

    def attribute(self, run: Run, owner: Any, name: str) -> Any:
        return getattr(owner, name, NO_VALUE)

    def call(
        self, run: Run, node: ast.Call, function: Any, args: list[Argument], kwargs: dict[str, Argument]
    ) -> Any:
        """Interpret it if it is a macro or receives something of the kernel, else let Python call it."""
        if isinstance(function, Macro):
            return self._interpret(run, node, function.function, args, kwargs, is_macro=True)
        for_kernel = needs_interpretation(args, kwargs)
        if for_kernel or _holds_kernel_code(function):
            owners, inner = _python_code(function)
            if inner is not None:
                at = run.span(node.func)
                return self._interpret(run, node, inner, [*(Argument(o, at) for o in owners), *args], kwargs)
        if isinstance(function, type) and makes_kernel_object(run, function, args, kwargs):
            return make_object(run, node, function, args, kwargs)
        keeps = _keeps(function)
        values = [_handed_over(run, a, keeps) for a in args]
        named = {k: _handed_over(run, a, keeps) for k, a in kwargs.items()}
        unknown = any_unknown([*values, named])
        if unknown is not None:
            return unknown
        if not callable(function):
            what = f"`{ast.unparse(node.func)}` is a {type(function).__name__} and cannot be called"
            return run.report(UNSUPPORTED_PYTHON, run.span(node.func), what=what)
        made = run.guarded_native(node, function, values, named)
        if isinstance(made, X.Let):  # parts of kernels name values by statements of their own
            return substitute(made.body, {made.var: made.value})
        return made

    def _interpret(
        self,
        run: Run,
        node: ast.Call,
        function: Callable[..., Any],
        args: list[Argument],
        kwargs: dict[str, Argument],
        is_macro: bool = False,
    ) -> Any:
        try:
            interpreted = live_function(function)
        except SourceNotFound as error:
            return run.report(UNSUPPORTED_PYTHON, run.span(node), what=str(error))
        interpreted.is_macro = interpreted.attributes[UNBOUND] = is_macro
        return call_function(run, interpreted, args, kwargs, node, run.span(node))


def _python_code(function: Any) -> tuple[list[Any], types.FunctionType | None]:
    """The Python function behind a callable, None if there is none, and what it gets in front: methods,
    objects with `__call__`, functions whose results `functools.cache` keeps.
    """
    if isinstance(function, functools._lru_cache_wrapper):
        function = inspect.unwrap(function)
    if isinstance(function, types.FunctionType):
        return [], function
    if isinstance(function, types.MethodType):
        inner = function.__func__
        return [function.__self__], inner if isinstance(inner, types.FunctionType) else None
    kind = type(function)
    ours = isinstance(function, type) or kind.__module__.startswith("tilelang.")
    inner = None if ours else getattr(kind, "__call__", None)  # noqa: B004 (asked for its code)
    return [function], inner if isinstance(inner, types.FunctionType) else None


def _keeps(function: Any) -> bool:
    """Whether a callable puts what it gets somewhere and does not compute with it."""
    owner = getattr(function, "__self__", None)
    return isinstance(function, type) or isinstance(owner, list | dict | set | collections.deque)


def _handed_over(run: Run, argument: Argument, keeps: bool) -> Any:
    """How an element of a tile comes to a callable whose source cannot be read: containers and objects keep
    it, whatever computes gets its value, as it knows nothing of tiles.
    """
    value = argument.value
    if keeps:
        return kept(run, value, "element")
    element = isinstance(value, Late) or (isinstance(value, Region) and value.is_point)
    if element or (isinstance(value, Buffer) and value.scope == "local.var"):
        return scalar(run, value, argument.span)
    return value


def _holds_kernel_code(function: Any) -> bool:
    inner = function.__func__ if isinstance(function, types.MethodType) else function
    return isinstance(inner, types.FunctionType) and holds_kernel_code(inner)


def trace_eager(
    function: Callable[..., Any],
    values: Mapping[str, Any],
    consts: Mapping[str, int] | None = None,
    *,
    signature_only: bool = False,
) -> TileProgram:
    """The tile program of an eager kernel.

    `values`: compile-time arguments by parameter name (tensors may be among them; their annotation replaces
    them). `consts`: values of T.const; those without one stay symbolic. `signature_only`: stop at `with
    T.Kernel`, for `const_sources`. Raises SourceNotFound. A kernel that is a factory gives its
    `@T.prim_func`'s program (style lazy).
    """
    interpreted = live_function(function)
    run = new_run(LiveEnvironment(), interpreted.source, interpreted.closure, _LIMITS)
    request = KernelRequest(
        interpreted,
        function.__name__,
        getattr(function, "__qualname__", function.__name__),
        values,
        consts or {},
        stop_at_launch=signature_only,
        specialisation=_specialisation({**values, **(consts or {})}),
    )
    return trace_kernel(run, request)


def trace_lazy(
    kernel: KernelFunction | Function | Callable[..., Any], out_idx: Any = None, name: str | None = None
) -> TileProgram:
    """The tile program of a `@T.prim_func` object, its closure's values built in, as they were when it was
    defined. Raises SourceNotFound.
    """
    if isinstance(kernel, KernelFunction):
        kernel = kernel.function if kernel.definition is None else kernel.definition.function
    interpreted = kernel if isinstance(kernel, Function) else live_function(kernel)
    run = new_run(LiveEnvironment(), interpreted.source, interpreted.closure, _LIMITS)
    request = KernelRequest(
        interpreted, name or interpreted.name, interpreted.qualified_name, out_idx=out_idx
    )
    return trace_prim_function(run, request)


def const_sources(program: TileProgram) -> list[ConstSource]:
    """For each T.const of a program traced without values: the first tensor argument's entry that is this
    const.
    """
    found = []
    for symbol in program.symbols:
        if symbol.kind != "const":
            continue
        place = next(_places(program, symbol.var), None)
        if place is not None:
            found.append(ConstSource(symbol.name, *place))
    return found


def _places(program: TileProgram, var: ir.Var) -> Any:
    for param in program.params:
        if param.buffer is None or param.buffer.role == "output":
            continue
        for where, entries in (("shape", param.buffer.shape), ("strides", param.buffer.strides or ())):
            for axis, entry in enumerate(entries):
                if isinstance(entry, ir.Var) and entry.same_as(var):
                    yield param.name, where, axis, str(param.buffer.dtype)


def _specialisation(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    plain_types = (bool, int, float, str)
    return tuple((k, str(v)) for k, v in values.items() if isinstance(v, plain_types))
