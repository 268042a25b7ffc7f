"""The live environment: kernels of running Python, with its real globals, closures and argument values."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import linecache
import types
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tvm import ir

from tilelang.diagnostics.rules.python import UNSUPPORTED_PYTHON
from tilelang.frontend.arguments import Argument, plain
from tilelang.frontend.functions import call_function, needs_interpretation
from tilelang.frontend.interpreter import new_run
from tilelang.frontend.kernel import NATIVE_ANNOTATIONS, KernelRequest, trace_kernel, trace_prim_function
from tilelang.frontend.model import NO_VALUE, Function
from tilelang.frontend.run import Limits, Run
from tilelang.frontend.scalars import any_unknown
from tilelang.frontend.scope import Scope
from tilelang.frontend.source import live_source
from tilelang.ir.tile_program import TileProgram
from tilelang.ir.values import Unknown
from tilelang.language.functions import Macro, PrimFunc
from tilelang.language.surroundings import surroundings

# Running Python has no step limit either; this one only ends what would never end.
_LIMITS = Limits(steps=50_000_000, depth=200, sequence=10_000_000)


class SourceNotFound(ValueError):
    """The text of a function cannot be read, so it cannot be interpreted."""


@dataclass(frozen=True)
class ConstSource:
    """Where the value of a T.const comes from: entry `axis` of the shape or strides of a tensor argument."""

    name: str
    parameter: str
    where: Literal["shape", "strides"]
    axis: int


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
            return self._interpret(run, node, function.function, args, kwargs)
        if needs_interpretation(args, kwargs):
            if isinstance(function, types.MethodType) and isinstance(function.__func__, types.FunctionType):
                owner = Argument(function.__self__, run.span(node.func))
                return self._interpret(run, node, function.__func__, [owner, *args], kwargs)
            if isinstance(function, types.FunctionType):
                return self._interpret(run, node, function, args, kwargs)
        values = [plain(a) for a in args]
        named = {k: plain(a) for k, a in kwargs.items()}
        unknown = any_unknown([*values, named])
        if unknown is not None:
            return unknown
        if not callable(function):
            what = f"`{ast.unparse(node.func)}` is a {type(function).__name__} and cannot be called"
            return run.report(UNSUPPORTED_PYTHON, run.span(node.func), what=what)
        return run.guarded_native(node, function, values, named)

    def _interpret(
        self,
        run: Run,
        node: ast.Call,
        function: Callable[..., Any],
        args: list[Argument],
        kwargs: dict[str, Argument],
    ) -> Any:
        try:
            interpreted = live_function(function)
        except SourceNotFound as error:
            return run.report(UNSUPPORTED_PYTHON, run.span(node), what=str(error))
        return call_function(run, interpreted, args, kwargs, node, run.span(node))


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
    kernel: PrimFunc | Callable[..., Any], out_idx: Any = None, name: str | None = None
) -> TileProgram:
    """The tile program of a `@T.prim_func` object, its closure's values built in. Raises SourceNotFound."""
    function = kernel.function if isinstance(kernel, PrimFunc) else kernel
    interpreted = live_function(function)
    run = new_run(LiveEnvironment(), interpreted.source, interpreted.closure, _LIMITS)
    own = name or function.__name__
    return trace_prim_function(
        run, KernelRequest(interpreted, own, getattr(function, "__qualname__", own), out_idx=out_idx)
    )


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
                    yield param.name, where, axis


def _specialisation(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    plain_types = (bool, int, float, str)
    return tuple((k, str(v)) for k, v in values.items() if isinstance(v, plain_types))
