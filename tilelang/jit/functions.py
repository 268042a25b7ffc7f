"""What `@tilelang.jit` makes of a function: an eager kernel, or a factory of lazy ones; both compile once per
use.
"""

from __future__ import annotations

import ast
import functools
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Generic, ParamSpec, TypeVar

from tvm import IRModule
from tvm import tirx as X

from tilelang.diagnostics.problem import Severity
from tilelang.frontend.environments.live import (
    ConstSource,
    SourceNotFound,
    const_sources,
    live_function,
    trace_eager,
    trace_lazy,
)
from tilelang.frontend.python.early_reads import early_reads, given_tensor
from tilelang.ir.tile_program import TileProgram
from tilelang.jit.compiling import compile_func, compile_program, prim_func_of, raise_errors
from tilelang.jit.kernel import JITKernel
from tilelang.jit.options import CompileOptions, check_backend, default_target_stamp
from tilelang.jit.tile_function import TileFunction
from tilelang.language.functions import KernelFunction
from tilelang.language.surroundings import keep_surroundings
from tilelang.language.values import OutsideKernelError
from tilelang.runtime.tensors import is_torch, unpacked, view

_log = logging.getLogger(__name__)


_NOTHING: Mapping[str, Any] = MappingProxyType({})
_TUNED = "__tune_params"
_ASKS_FOR_ARGUMENTS = "__return_compile_arguments"  # a call with it returns them, and compiles nothing

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class JITFunction(Generic[P, R]):
    """A kernel function under `@tilelang.jit`.

    Eager (the body launches with `T.Kernel`): called with tensors it compiles for their sizes and the values
    of its other parameters, runs, and returns the `T.empty` outputs. Lazy (it returns a `@T.prim_func`):
    called with values it returns a kernel. What was compiled is remembered by these values.

    To type checkers P are the parameters of the function and R is what a call returns.
    """

    def __init__(self, function: Callable[..., Any], options: CompileOptions) -> None:
        self.function = function
        self.options = options
        keep_surroundings(function)
        functools.update_wrapper(self, function)
        self.signature = inspect.signature(function)
        self._mode: _Eager | _Lazy | None = None
        self._used = False
        self._variants: dict[Any, JITFunction] = {}

    @property
    def mode(self) -> str:
        """`eager` or `lazy` once it has been used, `auto` until then; `mode_for` always tells."""
        return self._how().name if self._used else "auto"

    @property
    def out_idx(self) -> list[int] | None:
        """Which parameters of a lazy kernel are outputs; None if it was not said."""
        return None if self.options.out_idx is None else list(self.options.out_idx)

    @out_idx.setter
    def out_idx(self, out_idx: int | Sequence[int] | None) -> None:
        self._change(out_idx=CompileOptions.read(out_idx=out_idx).out_idx)

    @property
    def pass_configs(self) -> dict[str, Any]:
        """The pass configurations it is compiled under, by their texts."""
        return dict(self.options.pass_configs)

    @pass_configs.setter
    def pass_configs(self, pass_configs: Mapping[Any, Any] | None) -> None:
        self._change(pass_configs=CompileOptions.read(pass_configs=pass_configs).pass_configs)

    @property
    def target(self) -> Any:
        """The target as it was asked for; None for one that is chosen at each call. May be set."""
        return self.options.named_target

    @target.setter
    def target(self, target: Any) -> None:
        read = CompileOptions.read(target=target, execution_backend=self.options.execution_backend)
        self._change(target=read.target, named_target=read.named_target)

    @property
    def target_host(self) -> Any:
        """The host's target as it was asked for; no host code is generated."""
        return self.options.target_host

    @property
    def execution_backend(self) -> str | None:
        """The backend as it was asked for; every name means the one runtime there is."""
        return self.options.execution_backend

    @execution_backend.setter
    def execution_backend(self, backend: str | None) -> None:
        check_backend(backend, self.options.target)
        self._change(execution_backend=backend)

    @property
    def compile_flags(self) -> list[str] | None:
        """Flags for the device compiler; None if it was not said."""
        return list(self.options.compile_flags) or None

    @property
    def verbose(self) -> bool:
        """Whether compilations are logged."""
        return self.options.verbose

    @property
    def debug_root_path(self) -> str | None:
        """The folder that receives generated sources."""
        return self.options.debug_root_path

    @property
    def _kernel_cache(self) -> Mapping[Any, JITKernel]:
        """What this object has compiled, by the values it was compiled for; tests count them by this name."""
        return {} if self._mode is None else self._mode.kernels()

    @property
    def func(self) -> Callable[..., Any]:
        """The undecorated function, as `function`."""
        return self.function

    @property
    def func_source(self) -> str:
        """The text of the function. Raises OSError where it cannot be had."""
        return inspect.getsource(self.function)

    def is_lazy_mode(self) -> bool:
        """Whether it is a factory of kernels, not a kernel."""
        return self._how().name == "lazy"

    def initialize_jit_mode(self, *args: Any, **kwargs: Any) -> str:
        """`eager` or `lazy`, as a call with these arguments finds it, which `mode` says from now on."""
        self._used = True
        return self.mode_for(*args, **kwargs)

    def _compile_arguments(self) -> dict[str, Any]:
        """What `tilelang.compile` would be called with."""
        names = ("out_idx", "execution_backend", "target", "target_host", "verbose", "pass_configs")
        return {**{name: getattr(self, name) for name in names}, "compile_flags": self.compile_flags}

    def _change(self, **changes: Any) -> None:
        """Other options from now on: what was compiled under the old ones is forgotten."""
        self.options = replace(self.options, **changes)
        self._mode = None
        self._variants = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Eager: run on tensors. Lazy: the kernel for these values.

        Raises KernelError with every problem found.
        """
        if _ASKS_FOR_ARGUMENTS in kwargs:
            asked = kwargs.pop(_ASKS_FOR_ARGUMENTS)
            if asked:
                return self._compile_arguments()  # type: ignore[return-value]
        self._used = True
        given: dict[str, Any] = _with_tuned(kwargs)
        result: Any = self._how(args, given).call(args, given)
        return result

    def compile(self, *args: Any, **kwargs: Any) -> JITKernel:
        """The kernel without running it: sizes (`M=1024`) and parameters by name, tensors where sizes come
        from them.
        """
        self._used = True
        given = _with_tuned(kwargs)
        return self._how(args, given).compile(args, given)

    def start(self, *args: Any, **kwargs: Any) -> Callable[[], JITKernel]:
        """`compile` in two steps: a factory is called now, and raises what its author's code raises; what it
        made is compiled when the answer is called.
        """
        self._used = True
        given = _with_tuned(kwargs)
        return self._how(args, given).start(args, given)

    def get_tir(self, *args: Any, **kwargs: Any) -> TileFunction:
        """The tile function for these values, before any lowering."""
        self._used = True
        given = _with_tuned(kwargs)
        return TileFunction.of(self._how(args, given).tile_function(args, given))

    def get_kernel_source(self, *args: Any, **kwargs: Any) -> str:
        """The generated source of the kernel for these values."""
        return self.compile(*args, **kwargs).get_kernel_source()

    def par_compile(
        self, configs: Iterable[Any], num_workers: int | None = None, ignore_error: bool = False
    ) -> list[JITKernel | None]:
        """The kernels of several configurations (mappings of keywords, or tuples of arguments), compiled side
        by side.

        ignore_error: None in the place of one that does not compile, with a warning in the log. Raises
        ValueError for a configuration that is neither.
        """
        from concurrent.futures import ThreadPoolExecutor

        asked = list(configs)
        for config in asked:
            if not isinstance(config, Mapping | tuple | list):
                kind = type(config).__name__
                raise ValueError(
                    f"Invalid config type: {kind}, expected a tuple or a mapping, not {config!r}"
                )

        def one(config: Any) -> JITKernel | None:
            try:
                return self.compile(**config) if isinstance(config, Mapping) else self.compile(*config)
            except Exception as error:
                if not ignore_error:
                    raise
                _log.warning("passed over a configuration that does not compile: %s", error)
                return None

        with ThreadPoolExecutor(num_workers) as pool:
            return list(pool.map(one, asked))

    def under(
        self, options: CompileOptions | None, pass_configs: Mapping[Any, Any] | None = None
    ) -> JITFunction:
        """The same function compiled under `options` where they say something, and with further pass
        configurations.
        """
        if options is None and not pass_configs:
            return self
        merged = (options.over(self.options) if options else self.options).with_pass_configs(pass_configs)
        key = freeze(vars(merged))
        if key not in self._variants:
            self._variants[key] = JITFunction(self.function, merged)
        return self._variants[key]

    def __repr__(self) -> str:
        return f"<tilelang.jit {self.function.__qualname__}>"

    def mode_for(self, *args: Any, **kwargs: Any) -> str:
        """`eager` or `lazy`, as a call with these arguments finds it."""
        return self._how(args, kwargs).name

    def _how(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] = _NOTHING) -> _Eager | _Lazy:
        if self._mode is not None:
            return self._mode
        lazy = _reads_lazy(self.function)
        if lazy is None and self.options.out_idx is not None:
            lazy = True  # eager kernels have none
        if lazy is None:
            lazy = _returns_kernel(self.function, self.signature, args, kwargs)
        if lazy is False and self.options.out_idx is not None:
            raise ValueError(
                f"out_idx is only supported in lazy mode: {self.function.__name__} is eager, its outputs "
                "are what it makes with T.empty and returns"
            )
        found = (_Lazy if lazy else _Eager)(self.function, self.signature, self.options)
        if lazy is not None:
            self._mode = found
        return found


class _Lazy:
    """A factory: called natively for its `@T.prim_func`."""

    name = "lazy"

    def __init__(
        self, function: Callable[..., Any], signature: inspect.Signature, options: CompileOptions
    ) -> None:
        self._function = function
        self._signature = signature
        self._options = options
        self._kernels: dict[Any, JITKernel] = {}

    def kernels(self) -> Mapping[Any, JITKernel]:
        """What was compiled so far."""
        return self._kernels

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> JITKernel:
        return self.compile(args, kwargs)

    def compile(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> JITKernel:
        return self.start(args, kwargs)()

    def start(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], JITKernel]:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        options = self._options.resolved()
        key = (options.target, freeze(bound.arguments))
        known = self._kernels.get(key)
        if known is not None:
            return lambda: known
        made = self._function(*args, **kwargs)

        def compiled() -> JITKernel:
            return self._kernels.setdefault(key, compile_kernel(made, options, self._function))

        return compiled

    def tile_function(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> X.PrimFunc:
        made = self._function(*args, **kwargs)
        target = self._options.resolved().target
        assert target is not None
        if not _is_kernel(made):
            return made
        # Which parameters are outputs is said where it is compiled: the function takes all of them.
        return prim_func_of(_traced(made, replace(self._options, out_idx=None)), target)


class _Eager:
    """A kernel that is traced: once for its signature, then once per set of sizes and values."""

    name = "eager"

    def __init__(
        self, function: Callable[..., Any], signature: inspect.Signature, options: CompileOptions
    ) -> None:
        self._function = function
        self._signature = signature
        self._options = options
        self._kernels: dict[Any, JITKernel] = {}
        self._headers: dict[Any, _Header] = {}
        self._runtime: tuple[str, ...] | None = None  # parameters that are tensors or run-time scalars
        self._read_early: Mapping[str, frozenset[str]] | None = None
        self._quick: dict[Any, JITKernel] = {}

    def kernels(self) -> Mapping[Any, JITKernel]:
        """What was compiled so far."""
        return self._kernels

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        quick = self._quick_key(args) if not kwargs else None
        if quick is not None:
            kernel = self._quick.get(quick)
            if kernel is not None:
                return kernel(*args[: len(self._runtime or ())])
        values = self._bind(args, kwargs, partial=False)
        kernel = self._kernel(values, {})
        inputs = [values[name] for name in self._runtime or ()]
        result = kernel(*inputs)
        if quick is not None and self._leads():
            self._quick[quick] = kernel
        return result

    def compile(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> JITKernel:
        values, consts = self._split(args, kwargs)
        return self._kernel(values, consts)

    def start(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], JITKernel]:
        return functools.partial(self.compile, args, kwargs)

    def tile_function(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> X.PrimFunc:
        values, consts = self._split(args, kwargs)
        header = self._header(values)
        static = header.static(values) | self._early(values)
        program = trace_eager(self._function, static, self._consts(header, values, consts))
        target = self._options.resolved().target
        assert target is not None
        return prim_func_of(program, target)

    def _kernel(self, values: Mapping[str, Any], given: Mapping[str, int]) -> JITKernel:
        header = self._header(values)
        consts = self._consts(header, values, given)
        options = self._options.resolved()
        static = header.static(values) | self._early(values)
        key = (options.target, freeze(static), freeze(consts))
        if key not in self._kernels:
            program = trace_eager(self._function, static, consts)
            self._kernels[key] = compile_program(program, options)
        return self._kernels[key]

    def _header(self, values: Mapping[str, Any]) -> _Header:
        """The signature for these values: which parameters are tensors, where consts come from."""
        known = {k: v for k, v in values.items() if not self._is_runtime(k, v)} | self._early(values)
        key = freeze(known)
        if key not in self._headers:
            program = trace_eager(self._function, known, signature_only=True)
            raise_errors([p for p in program.problems if p.severity is Severity.ERROR])
            header = _Header(program)
            self._runtime = header.runtime
            self._headers[key] = header
        return self._headers[key]

    def _early(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What the kernel reads of its tensors above their declarations: part of what it is compiled for."""
        if self._read_early is None:
            node = live_function(self._function).node
            self._read_early = early_reads(node) if isinstance(node, ast.FunctionDef) else {}
        found: dict[str, Any] = {}
        for name, attributes in self._read_early.items():
            tensor = view(values.get(name))
            if tensor is not None:
                found[name] = given_tensor(tensor.dtype, tensor.shape, attributes)
        return found

    def _is_runtime(self, name: str, value: Any) -> bool:
        return (self._runtime is not None and name in self._runtime) or view(value) is not None

    def _consts(self, header: _Header, values: Mapping[str, Any], given: Mapping[str, int]) -> dict[str, int]:
        """The value of every T.const: given by name, or read from a tensor's shape or strides."""
        found = dict(given)
        for source in header.sources:
            if source.name in found:
                continue
            tensor = view(values.get(source.parameter))
            if tensor is None:
                verb = "says" if source.where == "shape" else "say"
                raise ValueError(
                    f"Cannot find value for constexpr variable `{source.name}` of {self._function.__name__}: "
                    f"pass {source.name}=..., or the tensor {source.parameter}, "
                    f"whose {source.where} {verb} it"
                )
            tensor = unpacked(tensor, source.dtype)
            entries = getattr(tensor, source.where)
            if source.axis >= len(entries):
                raise ValueError(
                    f"{source.parameter} has {len(entries)} dimensions {tensor.shape}, "
                    f"but its annotation reads {source.name} from dimension {source.axis}"
                )
            found[source.name] = int(entries[source.axis])
        return found

    def _split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
        """Values of parameters, and values of sizes given by name."""
        own = {k: v for k, v in kwargs.items() if k in self._signature.parameters}
        consts = {k: v for k, v in kwargs.items() if k not in self._signature.parameters}
        values = self._bind(args, own, partial=True)
        if consts:
            names = [s.name for s in self._header(values).program.symbols if s.kind == "const"]
            wrong = [k for k in consts if k not in names]
            if wrong:
                have = ", ".join([*self._signature.parameters, *names])
                raise TypeError(
                    f"{self._function.__name__} has no parameter or size {wrong[0]}; it has {have}"
                )
        return values, consts

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any], partial: bool) -> dict[str, Any]:
        try:
            bound = (self._signature.bind_partial if partial else self._signature.bind)(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._function.__name__}: {error}") from None
        bound.apply_defaults()
        return dict(bound.arguments)

    def _leads(self) -> bool:
        """Whether the run-time parameters come first, so that positional calls need no names."""
        runtime = self._runtime or ()
        return tuple(self._signature.parameters)[: len(runtime)] == runtime

    def _quick_key(self, args: tuple[Any, ...]) -> Any:
        """Shapes, strides, dtypes and devices of tensors, values of the rest, and the target; None if one
        cannot be a key.
        """
        target = self._options.target
        try:
            key = (
                default_target_stamp() if target is None else target,
                *((a.shape, a.stride(), a.dtype, a.device) if is_torch(a) else (type(a), a) for a in args),
            )
            hash(key)
        except TypeError:
            return None
        return key


class _Header:
    """The signature of an eager kernel for one set of compile-time values."""

    def __init__(self, program: TileProgram) -> None:
        self.program = program
        self.runtime = tuple(
            p.name for p in program.params if p.buffer is None or p.buffer.role == "parameter"
        )
        self.sources: list[ConstSource] = const_sources(program)

    def static(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The compile-time values among `values`."""
        return {k: v for k, v in values.items() if k not in self.runtime}


def _with_tuned(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keywords of a call, those of `__tune_params` (what a search chose, which wins) among them."""
    if _TUNED not in kwargs:
        return kwargs
    return {k: v for k, v in kwargs.items() if k != _TUNED} | dict(kwargs[_TUNED] or {})


class NoKernelError(TypeError, AssertionError):
    """What was to be compiled or tuned is no kernel; an AssertionError too, as the language has it."""


def compile_kernel(
    made: Any, options: CompileOptions, factory: Callable[..., Any] | None = None
) -> JITKernel:
    """The kernel of a `@T.prim_func` (or of a tile function). Raises NoKernelError for anything else."""
    options = options.resolved()
    func = tile_function(made, options, factory)
    return compile_func(func, options, None if factory is None else factory.__name__)


def tile_function(
    made: Any, options: CompileOptions, factory: Callable[..., Any] | None = None
) -> X.PrimFunc:
    """The tile function of a `@T.prim_func`, of a tile function or of a module with one, for options with a
    target. Raises NoKernelError for anything else, KernelError with every problem.
    """
    if isinstance(made, IRModule):
        made = _only_function(made)
    if not _is_kernel(made):
        if isinstance(made, X.PrimFunc):
            return made
        what = f"{factory.__name__} returned" if factory is not None else "tilelang.compile was given"
        raise NoKernelError(
            f"target function must be a PrimFunc but got {type(made)}: {what} {type(made).__name__}; "
            "expected a function under @T.prim_func"
        )
    assert options.target is not None
    return prim_func_of(_traced(made, options), options.target)


def _is_kernel(made: Any) -> bool:
    """Whether it comes from `@T.prim_func`, not from tvm: once it has been read, such a kernel is also an
    instance of tvm's class.
    """
    return issubclass(type(made), KernelFunction)


def _only_function(module: IRModule) -> X.PrimFunc:
    """The tile function of a module. Raises ValueError for one with several, or with none."""
    functions = [f for f in module.functions.values() if isinstance(f, X.PrimFunc)]
    if len(functions) != 1:
        raise ValueError(
            f"a module with one tile function is compiled, this one has {len(functions)}: "
            "compile them one by one"
        )
    return functions[0]


def _traced(made: KernelFunction, options: CompileOptions) -> TileProgram:
    if options.out_idx is None and made.definition is not None:
        return made.definition.program
    return trace_lazy(made, out_idx=options.out_idx)


def freeze(value: Any) -> Any:
    """A hashable stand-in for an argument: containers by content, other unhashable objects by identity."""
    if isinstance(value, Mapping):
        return tuple((k, freeze(v)) for k, v in value.items())
    if isinstance(value, list | tuple):
        return (type(value).__name__, *map(freeze, value))
    if isinstance(value, set | frozenset):
        return frozenset(map(freeze, value))
    try:
        hash(value)
    except TypeError:
        return _ById(value)
    # 1, 1.0 and True are equal keys, but not equal kernels.
    return (type(value), value)


class _ById:
    """An object as a key by identity; holds it, so that no other can take its place."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and other._value is self._value

    def __hash__(self) -> int:
        return id(self._value)


def _reads_lazy(function: Callable[..., Any]) -> bool | None:
    """A `@T.prim_func` in the body: lazy; a launch: eager; neither: only a call can tell."""
    try:
        body = live_function(function).node
    except SourceNotFound:
        return None
    nested = [n for n in ast.walk(body) if isinstance(n, ast.FunctionDef) and n is not body]
    if any(_names(d, "prim_func") for n in nested for d in n.decorator_list):
        return True
    launches = [i for n in ast.walk(body) if isinstance(n, ast.With) for i in n.items]
    if any(isinstance(i.context_expr, ast.Call) and _names(i.context_expr.func, "Kernel") for i in launches):
        return False
    return None


def _returns_kernel(
    function: Callable[..., Any], signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> bool | None:
    """Whether a call returns a `@T.prim_func`, as a factory does that leaves the kernel to another function.
    None for arguments that do not fit: an eager kernel may be given sizes by name.
    """
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    try:
        return isinstance(function(*bound.args, **bound.kwargs), KernelFunction | X.PrimFunc)
    except (OutsideKernelError, TypeError):
        return False


def _names(node: ast.expr, name: str) -> bool:
    """Whether a decorator or callee is called `name`, however it is reached."""
    if isinstance(node, ast.Call):
        node = node.func
    return (isinstance(node, ast.Attribute) and node.attr == name) or (
        isinstance(node, ast.Name) and node.id == name
    )
