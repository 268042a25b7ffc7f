"""Which values a kernel's parameters take in the editor, and the tile program under them.

In this order: a choice made in the editor, a comment `# tilelang: specialize(block_M=128)` at the kernel,
calls in the file and autotune configurations, defaults. Sizes (`T.const`, `T.dynamic`) stay symbolic unless
the choice or the comment names them. Parameters without a value are Unknown and listed in `program.missing`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.python import UNKNOWN_LANGUAGE_NAME
from tilelang.diagnostics.span import Span
from tilelang.frontend.arguments import Argument
from tilelang.frontend.environments.host_calls import (
    all_arguments,
    call_with_defaults,
    made_by_defaults,
    reached_by_host_code,
    receiver_of,
)
from tilelang.frontend.environments.kernel import KernelRequest, trace_kernel, trace_prim_function
from tilelang.frontend.environments.static_environment import MODULE_LIMITS
from tilelang.frontend.environments.static_module import KernelSource, StaticModule, comment_block_start
from tilelang.frontend.model import Function, Instance, JitFunction, PrimFunction
from tilelang.frontend.python.decorator_options import check_decorators
from tilelang.frontend.python.decorators import decorated
from tilelang.frontend.python.early_reads import early_reads, given_tensor
from tilelang.frontend.python.functions import evaluated_defaults
from tilelang.frontend.python.interpreter import new_run
from tilelang.frontend.python.modelled_modules import HostTensor
from tilelang.frontend.run import Limits, Run, StopInterpreting
from tilelang.frontend.scope import Scope
from tilelang.ir.tile_program import TileProgram
from tilelang.ir.values import Unknown
from tilelang.language.dtypes import DType
from tilelang.language.names import declared_name
from tilelang.parsing import parse

Origin = Literal["choice", "comment", "call", "autotune", "default"]
_DIRECTIVE = re.compile(r"#\s*tilelang:\s*specialize\s*(\(.*\))")
_MAX_KNOWN = 8  # specialisations of one kernel that are worth checking, ...
_MAX_CALLS = 16  # ... and more where that many calls ask for them


@dataclass(frozen=True)
class Specialisation:
    """Values by name, and where they come from. Names that are no parameters are sizes (`T.const`)."""

    values: tuple[tuple[str, Any], ...]
    origin: Origin
    tensors: tuple[tuple[str, HostTensor], ...] = ()  # that a call passes, by parameter
    around: tuple[tuple[str, Any], ...] = ()  # parameters of the functions the kernel is defined in
    # Names of the module that the kernel uses and that have another value at the module's end.
    names: tuple[tuple[str, Any], ...] = ()
    # The kernel's function as such a call makes it, and what its decorators make of that.
    made: tuple[Function, Any] | None = field(default=None, compare=False, repr=False)
    named: frozenset[str] = frozenset()  # sizes that `kernel.compile(N=...)` gives; they stay symbolic

    def text(self) -> tuple[tuple[str, str], ...]:
        """Values as written: `block_M=128`."""
        own = {n for n, _ in (*self.around, *self.values)}  # a parameter hides the module's name
        names = [
            (n, v) for n, v in self.names if n not in own and not isinstance(v, Function) and _is_plain(v)
        ]
        return tuple((n, _shown(v)) for n, v in (*names, *self.around, *self.values))


def _shown(value: Any) -> str:
    if isinstance(value, Instance):
        inside = ", ".join(
            f"{n}={_shown(v)}" for n, v in value.attributes.items() if _is_plain(v) and not n.startswith("_")
        )
        return f"{value.cls.name}({inside})"
    if isinstance(value, Function):
        return value.name
    return f"T.{declared_name(value)}" if _is_of_language(value) else str(value)


def _is_of_language(value: Any) -> bool:
    """A function of the language, such as the `T.reduce_sum` that a factory receives."""
    return callable(value) and not isinstance(value, DType | type) and declared_name(value) is not None


def known_specialisations(module: StaticModule, kernel: KernelSource) -> list[Specialisation]:
    """All that the file itself knows, without repetition; at least one, perhaps empty (the defaults)."""
    function, options = kernel_function(module, kernel)
    if function is None:
        return [Specialisation((), "default")]
    comment = _from_comment(module, kernel)
    if comment is not None:
        return [replace(comment, names=_unsettled(module, kernel))]
    found = _from_calls(module, kernel)
    limit = max(_MAX_KNOWN, min(_MAX_CALLS, len(found)))
    tuned = _from_autotune(module, options)
    if tuned and found:
        merged = [
            replace(c, values=tuple({**dict(t.values), **dict(c.values)}.items()))
            for t in tuned
            for c in found
        ]
        found = merged
    elif tuned:
        found = [replace(t, names=_unsettled(module, kernel)) for t in tuned]
    unique: dict[tuple[tuple[str, str], ...], Specialisation] = {}
    for item in _with_all_names(module, found):
        unique.setdefault(tuple(sorted(item.text())), item)
    named = frozenset(name for item in found for name in item.named) | _keys(module, kernel)
    kept = [replace(item, named=named) for item in unique.values()][:limit]
    return kept or [Specialisation((), "default", names=_unsettled(module, kernel), named=named)]


def _keys(module: StaticModule, kernel: KernelSource) -> frozenset[str]:
    """Names in the dicts of the code that reaches a kernel, such as `{"N": 4096, "block": 64}`: arguments by
    name of a call that a helper makes, `kernel.compile(**sizes)`.
    """
    found: set[str] = set()
    for statement in module.host_code(kernel):
        for node in ast.walk(statement):
            if isinstance(node, ast.Dict):
                found |= {
                    k.value for k in node.keys if isinstance(k, ast.Constant) and isinstance(k.value, str)
                }
            elif isinstance(node, ast.Name):
                value = module.scope.names.get(node.id)
                found |= {k for k in value if isinstance(k, str)} if isinstance(value, dict) else set()
    return frozenset(found)


def _with_all_names(module: StaticModule, found: list[Specialisation]) -> list[Specialisation]:
    """Names that one of them sees with another value are told in all."""
    told = sorted({name for item in found for name, _ in item.names})
    final = {n: module.scope.names[n] for n in told if n in module.scope.names}
    return [replace(item, names=tuple({**final, **dict(item.names)}.items())) for item in found]


def _unsettled(module: StaticModule, kernel: KernelSource) -> tuple[tuple[str, Any], ...]:
    """Names that cells of a notebook bind again after the kernel: when it is called is not known. Modules
    are run to their end before others import them.
    """
    if not module.path.endswith(".ipynb"):
        return ()
    changed = module.rebindings.changed_after(kernel.span.end_line) & kernel.captures
    return tuple((n, Unknown(f"`{n}` is bound again by another cell")) for n in sorted(changed))


def chosen_specialisation(
    module: StaticModule, kernel: KernelSource, choice: Mapping[str, str]
) -> Specialisation:
    """The first known specialisation with the editor's choice over it."""
    base = known_specialisations(module, kernel)[0]
    if not choice:
        return base
    run = new_run(module.environment, module.source, module.scope, MODULE_LIMITS)
    chosen = {name: _parsed(run, text) for name, text in choice.items()}
    outer = {a.arg for o in kernel.found.outer for a in all_arguments(o.args)}
    around = {**dict(base.around), **{n: v for n, v in chosen.items() if n in outer}}
    made = base.made
    if outer & chosen.keys():
        made = made_by_defaults(module, kernel, around) or made
    values = {**dict(base.values), **{n: v for n, v in chosen.items() if n not in outer}}
    known = tuple(values.items())
    return Specialisation(known, "choice", base.tensors, tuple(around.items()), base.names, made)


def with_call_sizes(specialisation: Specialisation, program: TileProgram) -> Specialisation:
    """`specialisation` with the `T.const` sizes that a call of the file binds through its tensors.

    `program` is the kernel traced under `specialisation`. Checks keep these sizes symbolic, since other calls
    may bind others; a preview shows the code of the call that stands in the file.
    """
    tensors = dict(specialisation.tensors)
    constants = {s.name: s.var for s in program.symbols if s.kind == "const"}
    sizes: dict[str, int] = {}
    for param in program.params:
        tensor = tensors.get(param.name)
        shape = () if tensor is None or tensor.shape is None else tensor.shape
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
    which: int = 0,
) -> TileProgram:
    """The tile program of a kernel of a module under `specialisation` (by default the one `choice` leads
    to). `which`: of several kernels that one factory makes.
    """
    under = specialisation or chosen_specialisation(module, kernel, choice or {})
    with module.names_as(dict(under.names)):
        return _traced(module, kernel, under, limits, which)


def _traced(
    module: StaticModule, kernel: KernelSource, under: Specialisation, limits: Limits | None, which: int
) -> TileProgram:
    if under.made is not None:
        function, options = under.made[0], _options(under.made[1])
    else:
        function, options = kernel_function(module, kernel)
    run = new_run(module.environment, module.source, module.scope, limits)
    run.by_defaults = under.origin == "default"
    if function is None:
        return _nothing(run, module, kernel)
    check_decorators(run, kernel.found.node)
    if not kernel.found.outer:
        run.problems += _wrong_defaults(module, kernel.found.node)
    names = {a.arg for a in all_arguments(function.node.args)}
    values = dict(under.values)
    if kernel.found.owner is not None:
        values = {**receiver_of(module, kernel, function), **values}
    values = {**_read_early(function, under), **values}
    request = KernelRequest(
        function,
        kernel.name,
        kernel.qualified_name,
        {n: v for n, v in values.items() if n in names},
        {n: v for n, v in values.items() if n not in names and isinstance(v, int)},
        out_idx=options.get("out_idx"),
        under_jit=options.get("under_jit", False),
        specialisation=under.text(),
        named=under.named,
        which=which,
    )
    trace = trace_prim_function if options.get("prim_func") else trace_kernel
    program = trace(run, request)
    program.target = options.get("target")
    return program


def _wrong_defaults(module: StaticModule, node: ast.FunctionDef) -> list[Problem]:
    """`dtype=T.flaot32`: names that the language does not have, which fail where the function is defined."""
    if not any(isinstance(d, ast.Attribute) for d in (*node.args.defaults, *node.args.kw_defaults)):
        return []
    run = new_run(module.environment, module.source, module.scope, MODULE_LIMITS)
    try:
        evaluated_defaults(run, node.args)
    except (StopInterpreting, RecursionError):
        return []
    return [p for p in run.problems if p.rule == UNKNOWN_LANGUAGE_NAME.name]


def _read_early(function: Function, under: Specialisation) -> dict[str, HostTensor]:
    """What a call in the file says of tensors that the kernel asks before it declares them."""
    asked = early_reads(function.node) if isinstance(function.node, ast.FunctionDef) else {}
    tensors = dict(under.tensors)
    return {n: given_tensor(tensors[n].dtype, tensors[n].shape, a) for n, a in asked.items() if n in tensors}


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
        made = made_by_defaults(module, kernel, {})
        return (None, {}) if made is None else (made[0], _options(made[1]))
    function = Function(node.name, node, module.source, module.scope)
    try:
        function.defaults = evaluated_defaults(run, node.args)
        found = module.scope.find(node.name)[1]
        value = found if _is_same(found, node) else _decorated_again(run, node, function)
        if value is found:  # as in `k = Ops.k`, where a decorator has made it a static method
            function.attributes.update(_function_of(value).attributes)
        if isinstance(value, Function):
            value = _made_of(module, value)
    except (StopInterpreting, RecursionError):
        value = None
    return function, _options(value)


def _function_of(value: Any) -> Any:
    return value.function if isinstance(value, JitFunction | PrimFunction) else value


def _is_same(value: Any, node: ast.FunctionDef) -> bool:
    inner = _function_of(value)
    return isinstance(inner, Function) and inner.node is node


def _made_of(module: StaticModule, function: Function) -> Any:
    """What `kernel = tilelang.jit(function)` at the top level makes of a plain function."""
    made = [v for v in module.scope.names.values() if isinstance(v, JitFunction | PrimFunction)]
    return next((v for v in made if v.function.node is function.node), function)


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


# -- where values come from


def comment_names(module: StaticModule, kernel: KernelSource) -> list[tuple[str, Span]]:
    """The names that `# tilelang: specialize(...)` gives values, and where they stand."""
    found = _directive(module, kernel)
    if found is None:
        return []
    call, line, column = found
    text = module.source.lines[line - 1][column - 1 :]
    places: list[tuple[str, Span]] = []
    for keyword in call.keywords:
        if keyword.arg is not None:  # ast counts bytes, from the `f` in front of the bracket
            at = column + len(f"f{text}".encode()[: keyword.col_offset].decode()) - 1
            places.append((keyword.arg, Span(module.path, line, at, line, at + len(keyword.arg))))
    return places


def _directive(module: StaticModule, kernel: KernelSource) -> tuple[ast.Call, int, int] | None:
    """The call that the comment is written as, its line, and the column of its bracket."""
    first = comment_block_start(module.source, kernel.span.line)
    for number, line in enumerate(module.source.lines[first - 1 : kernel.span.end_line], first):
        match = _DIRECTIVE.search(line)
        if match is None:
            continue
        try:
            call = parse(f"f{match.group(1)}", mode="eval").body
        except SyntaxError:
            continue
        if isinstance(call, ast.Call):
            return call, number, match.start(1) + 1
    return None


def _from_comment(module: StaticModule, kernel: KernelSource) -> Specialisation | None:
    """`# tilelang: specialize(...)` above the decorators or inside the kernel."""
    found = _directive(module, kernel)
    if found is not None:
        call = found[0]
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
        node = parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return text
    value = _evaluated(run, node)
    return text if isinstance(value, Unknown) else value


def _from_autotune(module: StaticModule, options: Mapping[str, Any]) -> list[Specialisation]:
    configs = options.get("configs")
    if isinstance(configs, Function):
        run = new_run(module.environment, module.source, module.scope, MODULE_LIMITS)
        try:
            configs = call_with_defaults(run, configs)
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
    if isinstance(value, dict):
        return all(_is_plain(v) for pair in value.items() for v in pair)
    if isinstance(value, Instance | Function) or _is_of_language(value):
        return True
    return isinstance(value, bool | int | float | str | type(None)) or hasattr(value, "__index__")


def _from_calls(module: StaticModule, kernel: KernelSource) -> list[Specialisation]:
    """Values that host code of the file passes to the kernel and to the functions it is defined in."""
    found = []
    for reached in reached_by_host_code(module, kernel):
        function = reached.function
        values, tensors = _call_values(function, reached.args or [], reached.kwargs)
        around = _values_around(module, kernel, function)
        made = (function, reached.value) if kernel.found.outer else None
        names = tuple((n, v) for n, v in reached.names.items() if n in kernel.captures)
        known = tuple(values.items()), "call", tuple(tensors.items()), tuple(around.items()), names, made
        sizes = reached.kwargs.keys() - {a.arg for a in all_arguments(function.node.args)}
        found.append(Specialisation(*known, frozenset(sizes)))
    return found


def _values_around(module: StaticModule, kernel: KernelSource, function: Function) -> dict[str, Any]:
    """Known parameters of the functions around the kernel; of a method's object what the kernel reads."""
    found: dict[str, Any] = {}
    scope: Scope | None = function.closure
    text = module.source.slice(kernel.span)
    for outer in reversed(kernel.found.outer):
        while scope is not None and scope.owner != outer.name:
            scope = scope.parent
        if scope is None:
            break
        known = {a.arg: scope.names.get(a.arg) for a in all_arguments(outer.args)}
        for name, value in known.items():
            if isinstance(value, Instance) and name == "self":
                parts = {f"self.{n}": v for n, v in value.attributes.items() if f"self.{n}" in text}
                found = {**{n: v for n, v in parts.items() if _is_plain(v)}, **found}
            elif not isinstance(value, Unknown) and _is_plain(value):
                found = {name: value, **found}
    return found


def _call_values(
    function: Function, args: list[Argument], kwargs: dict[str, Argument]
) -> tuple[dict[str, Any], dict[str, HostTensor]]:
    """Plain values, and tensors, by parameter name; unknown values are left out, sizes by name are left
    symbolic.
    """
    named = all_arguments(function.node.args)
    names = {a.arg for a in named}
    # Autotuned parameters are left out by callers, so a call may bind fewer than the signature asks for.
    positional = [*function.node.args.posonlyargs, *function.node.args.args]
    given = {p.arg: a for p, a in zip(positional, args, strict=False)}
    given |= {k: a for k, a in kwargs.items() if k in names}
    values: dict[str, Any] = {}
    tensors: dict[str, HostTensor] = {}
    for name, argument in given.items():
        value = argument.value
        if isinstance(value, HostTensor):
            tensors[name] = value
        elif not isinstance(value, Unknown) and _is_plain(value):
            values[name] = value
    return values, tensors
