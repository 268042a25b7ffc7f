"""Which values a kernel's parameters take in the editor, and the tile program under them.

In this order: a choice made in the editor, a comment `# tilelang: specialize(block_M=128)` at the kernel,
calls in the file and autotune configurations, defaults. Sizes (`T.const`, `T.dynamic`) stay symbolic unless
the choice or the comment names them. Parameters without a value are Unknown and listed in `program.missing`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from tilelang.frontend.arguments import Argument
from tilelang.frontend.decorators import decorated
from tilelang.frontend.functions import call_function, evaluated_defaults, make_function
from tilelang.frontend.interpreter import new_run
from tilelang.frontend.kernel import KernelRequest, trace_kernel, trace_prim_function
from tilelang.frontend.model import ClassValue, Function, Instance, JitFunction, PrimFunction
from tilelang.frontend.modelled_modules import HostTensor
from tilelang.frontend.run import Limits, Run, StopInterpreting
from tilelang.frontend.scope import Scope
from tilelang.frontend.static_environment import MODULE_LIMITS
from tilelang.frontend.static_module import KernelSource, StaticModule, comment_block_start
from tilelang.ir.tile_program import TileProgram
from tilelang.ir.values import Unknown

Origin = Literal["choice", "comment", "call", "autotune", "default"]
_DIRECTIVE = re.compile(r"#\s*tilelang:\s*specialize\s*(\(.*\))")
_MAX_KNOWN = 8  # specialisations of one kernel that are worth checking
_HOST_LIMITS = Limits(steps=20_000, depth=20, sequence=2_000)


@dataclass(frozen=True)
class Specialisation:
    """Values by name, and where they come from. Names that are no parameters are sizes (`T.const`)."""

    values: tuple[tuple[str, Any], ...]
    origin: Origin
    tensors: tuple[tuple[str, tuple[Any, ...]], ...] = ()  # shapes that a call passes, by parameter

    def text(self) -> tuple[tuple[str, str], ...]:
        """Values as written: `block_M=128`."""
        return tuple((n, _shown(v)) for n, v in self.values)


def _shown(value: Any) -> str:
    return str(value)


def known_specialisations(module: StaticModule, kernel: KernelSource) -> list[Specialisation]:
    """All that the file itself knows, without repetition; at least one, perhaps empty (the defaults)."""
    function, options = kernel_function(module, kernel)
    if function is None:
        return [Specialisation((), "default")]
    comment = _from_comment(module, kernel)
    if comment is not None:
        return [comment]
    found = _from_calls(module, kernel, function)
    tuned = _from_autotune(module, options)
    if tuned and found:
        merged = [
            Specialisation(tuple({**dict(t.values), **dict(c.values)}.items()), "call")
            for c in found
            for t in tuned
        ]
        found = merged
    elif tuned:
        found = tuned
    unique: dict[tuple[tuple[str, str], ...], Specialisation] = {}
    for item in found:
        unique.setdefault(tuple(sorted(item.text())), item)
    kept = list(unique.values())[:_MAX_KNOWN]
    return kept or [Specialisation((), "default")]


def chosen_specialisation(
    module: StaticModule, kernel: KernelSource, choice: Mapping[str, str]
) -> Specialisation:
    """The first known specialisation with the editor's choice over it."""
    base = known_specialisations(module, kernel)[0]
    if not choice:
        return base
    run = new_run(module.environment, module.source, module.scope, MODULE_LIMITS)
    values = dict(base.values)
    values.update({name: _parsed(run, text) for name, text in choice.items()})
    return Specialisation(tuple(values.items()), "choice", base.tensors)


def with_call_sizes(specialisation: Specialisation, program: TileProgram) -> Specialisation:
    """`specialisation` with the `T.const` sizes that a call of the file binds through its tensors.

    `program` is the kernel traced under `specialisation`. Checks keep these sizes symbolic, since other calls
    may bind others; a preview shows the code of the call that stands in the file.
    """
    shapes = dict(specialisation.tensors)
    constants = {s.name: s.var for s in program.symbols if s.kind == "const"}
    sizes: dict[str, int] = {}
    for param in program.params:
        shape = shapes.get(param.name, ())
        if param.buffer is None or len(shape) != len(param.buffer.shape):
            continue
        for dim, size in zip(param.buffer.shape, shape, strict=True):
            name = next(
                (
                    n
                    for n, var in constants.items()
                    if not isinstance(dim, int | Unknown) and var.same_as(dim)
                ),
                None,
            )
            if name is not None and isinstance(size, int):
                sizes.setdefault(name, size)
    return replace(specialisation, values=(*specialisation.values, *sizes.items()))


def trace_static(
    module: StaticModule,
    kernel: KernelSource,
    choice: Mapping[str, str] | None = None,
    *,
    specialisation: Specialisation | None = None,
    limits: Limits | None = None,
) -> TileProgram:
    """The tile program of a kernel of a module under `specialisation` (by default the one `choice` leads
    to).
    """
    under = specialisation or chosen_specialisation(module, kernel, choice or {})
    function, options = kernel_function(module, kernel)
    run = new_run(module.environment, module.source, module.scope, limits)
    if function is None:
        return _nothing(run, module, kernel)
    names = {a.arg for a in _all_arguments(function.node.args)}
    values = dict(under.values)
    if kernel.found.owner is not None:
        values.update(_receiver(module, kernel, function))
    request = KernelRequest(
        function,
        kernel.name,
        kernel.qualified_name,
        {n: v for n, v in values.items() if n in names},
        {n: v for n, v in values.items() if n not in names and isinstance(v, int)},
        out_idx=options.get("out_idx"),
        under_jit=options.get("under_jit", False),
        specialisation=under.text(),
    )
    if options.get("prim_func"):
        return trace_prim_function(run, request)
    return trace_kernel(run, request)


def _all_arguments(args: ast.arguments) -> list[ast.arg]:
    return [*args.posonlyargs, *args.args, *args.kwonlyargs]


def _receiver(module: StaticModule, kernel: KernelSource, function: Function) -> dict[str, Any]:
    """The first argument of a method: an object of its class whose attributes are not known."""
    args = _all_arguments(function.node.args)
    cls = module.scope.names.get(kernel.found.owner or "")
    if not args or function.attributes.get("staticmethod") or not isinstance(cls, ClassValue):
        return {}
    return {args[0].arg: Instance(cls, {})}


def _nothing(run: Run, module: StaticModule, kernel: KernelSource) -> TileProgram:
    """A kernel whose definition is never reached: an empty program."""
    node = kernel.found.node
    return TileProgram(
        kernel.name,
        kernel.qualified_name,
        kernel.style,
        kernel.span,
        module.source.name_span(node),
        [],
        [],
        [],
        [],
        [],
        [],
        complete=False,
    )


# -- the kernel's function


def kernel_function(module: StaticModule, kernel: KernelSource) -> tuple[Function | None, dict[str, Any]]:
    """The function to interpret, and its decorators' options (`out_idx`, `configs`, `prim_func`)."""
    node = kernel.found.node
    run = new_run(module.environment, module.source, module.scope, MODULE_LIMITS)
    if kernel.found.outer:
        run.watched = node
        outer = make_function(run, kernel.found.outer[0])
        with suppress(StopInterpreting, RecursionError):
            _call_with_defaults(run, outer)
        if run.watched_value is None:
            return None, {}
        function, value = run.watched_value
        return function, _options(value)
    function = Function(node.name, node, module.source, module.scope)
    try:
        function.defaults = evaluated_defaults(run, node.args)
        found = module.scope.find(node.name)[1]
        value = found if _is_same(found, node) else _decorated_again(run, node, function)
    except (StopInterpreting, RecursionError):
        value = None
    return function, _options(value)


def _is_same(value: Any, node: ast.FunctionDef) -> bool:
    inner = value.function if isinstance(value, JitFunction | PrimFunction) else value
    return isinstance(inner, Function) and inner.node is node


def _decorated_again(run: Run, node: ast.FunctionDef, function: Function) -> Any:
    return decorated(run, node, function)


def _options(value: Any) -> dict[str, Any]:
    if isinstance(value, PrimFunction):
        return {"prim_func": True}
    if not isinstance(value, JitFunction):
        return {}
    options = {**value.decorators.get("jit", {}), "under_jit": "jit" in value.decorators}
    tuned = value.decorators.get("autotune")
    if tuned is not None and "configs" in tuned:
        options["configs"] = tuned["configs"]
    return options


def _call_with_defaults(run: Run, function: Function) -> Any:
    """Interpret host code: parameters take their defaults, others are Unknown."""
    at = function.source.span(function.node)
    given: dict[str, Argument] = {}
    for parameter in _all_arguments(function.node.args):
        if parameter.arg not in function.defaults:
            given[parameter.arg] = Argument(Unknown(f"`{parameter.arg}` has no value"), at, parameter.arg, at)
    positional = {a.arg for a in function.node.args.posonlyargs}
    args = [
        given.pop(a.arg) for a in function.node.args.posonlyargs if a.arg in given and a.arg in positional
    ]
    return call_function(run, function, args, given, function.node, at)


# -- where values come from


def _from_comment(module: StaticModule, kernel: KernelSource) -> Specialisation | None:
    """`# tilelang: specialize(...)` above the decorators or inside the kernel."""
    first = comment_block_start(module.source, kernel.span.line)
    for line in module.source.lines[first - 1 : kernel.span.end_line]:
        match = _DIRECTIVE.search(line)
        if match is None:
            continue
        try:
            call = ast.parse(f"f{match.group(1)}", mode="eval").body
        except SyntaxError:
            continue
        if not isinstance(call, ast.Call):
            continue
        run = new_run(module.environment, module.source, module.scope, MODULE_LIMITS)
        values = [(k.arg, _evaluated(run, k.value)) for k in call.keywords if k.arg is not None]
        return Specialisation(tuple((n, v) for n, v in values if not isinstance(v, Unknown)), "comment")
    return None


def _evaluated(run: Run, node: ast.expr) -> Any:
    try:
        return run.eval(node)
    except (StopInterpreting, RecursionError, KeyError):
        return Unknown("the value is not known")


def _parsed(run: Run, text: str) -> Any:
    """A value typed in the editor: an expression among the module's names, else the text itself."""
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return text
    value = _evaluated(run, node)
    return text if isinstance(value, Unknown) else value


def _from_autotune(module: StaticModule, options: Mapping[str, Any]) -> list[Specialisation]:
    configs = options.get("configs")
    if isinstance(configs, Function):
        run = new_run(module.environment, module.source, module.scope, MODULE_LIMITS)
        try:
            configs = _call_with_defaults(run, configs)
        except (StopInterpreting, RecursionError):
            return []
    if isinstance(configs, dict):
        configs = [configs]
    if not isinstance(configs, list | tuple):
        return []
    found = []
    for config in configs:
        if isinstance(config, dict) and all(isinstance(k, str) for k in config):
            known = {k: v for k, v in config.items() if _is_plain(v)}
            found.append(Specialisation(tuple(known.items()), "autotune"))
    return found


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(_is_plain(v) for v in value)
    return isinstance(value, bool | int | float | str | type(None)) or hasattr(value, "__index__")


def _from_calls(module: StaticModule, kernel: KernelSource, function: Function) -> list[Specialisation]:
    """Values that host code of the file passes: functions that call the kernel are interpreted with their
    defaults.
    """
    found = []
    for statement in module.calling_statements.get(kernel.name, ()):
        if kernel.span.line <= statement.lineno <= kernel.span.end_line:
            continue
        for args, kwargs in _calls_in(module, statement, kernel):
            values, tensors = _call_values(function, args, kwargs)
            found.append(Specialisation(tuple(values.items()), "call", tuple(tensors.items())))
    return found


def _calls_in(module: StaticModule, statement: ast.stmt, kernel: KernelSource) -> list[Any]:
    # A scope of its own: what host code binds is nothing that kernels see.
    run = new_run(module.environment, module.source, Scope(module.scope), _HOST_LIMITS)
    with suppress(StopInterpreting, RecursionError):
        if isinstance(statement, ast.FunctionDef):
            _call_with_defaults(run, make_function(run, statement))
        elif isinstance(statement, ast.If) and _is_main_guard(statement.test):
            run.exec(statement.body)
        elif not isinstance(statement, ast.ClassDef):
            run.exec([statement])
    node = kernel.found.node
    return [(args, kwargs) for called, args, kwargs in run.kernel_calls if called.function.node is node]


def _is_main_guard(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def _call_values(
    function: Function, args: list[Argument], kwargs: dict[str, Argument]
) -> tuple[dict[str, Any], dict[str, tuple[Any, ...]]]:
    """Plain values and shapes of tensors, by parameter name; unknown values are left out, sizes by name are
    left symbolic.
    """
    named = _all_arguments(function.node.args)
    names = {a.arg for a in named}
    # Autotuned parameters are left out by callers, so a call may bind fewer than the signature asks for.
    positional = [*function.node.args.posonlyargs, *function.node.args.args]
    given = {p.arg: a for p, a in zip(positional, args, strict=False)}
    given |= {k: a for k, a in kwargs.items() if k in names}
    values: dict[str, Any] = {}
    tensors: dict[str, tuple[Any, ...]] = {}
    for name, argument in given.items():
        value = argument.value
        if isinstance(value, HostTensor):
            if value.shape is not None:
                tensors[name] = value.shape
        elif not isinstance(value, Unknown) and _is_plain(value):
            values[name] = value
    return values, tensors
