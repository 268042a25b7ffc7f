"""How host code of a file reaches a kernel: calls of it, and of the functions it is defined in.

Host code is interpreted from where it starts (the top level, `if __name__ == "__main__"`, functions that
nothing calls), its parameters taking their defaults; nothing is executed.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from tilelang.frontend.arguments import Argument
from tilelang.frontend.environments.kernel_key import names_used, statement_text
from tilelang.frontend.environments.static_environment import MODULE_LIMITS, is_main_guard
from tilelang.frontend.environments.static_module import KernelSource, StaticModule
from tilelang.frontend.model import ClassValue, Function, HostCall, Instance
from tilelang.frontend.python.functions import call_function, make_function
from tilelang.frontend.python.interpreter import new_run
from tilelang.frontend.run import Limits, Run, StopInterpreting
from tilelang.frontend.source import Source
from tilelang.ir.values import Unknown

_HOST_LIMITS = Limits(steps=20_000, depth=20, sequence=2_000)
_MAX_ROWS = 4  # of the values that a test is run with
_ALL_STEPS = 40_000  # of all host code of one kernel together


@dataclass(frozen=True, eq=False)
class Reached:
    """A kernel's function as host code makes it, with the names around it and how it is called.

    `args` is None where the function is made and not called. `value` is what its decorators make of it,
    `names` are those of the module that have another value at its end.
    """

    function: Function
    value: Any
    args: list[Argument] | None
    kwargs: dict[str, Argument]
    names: dict[str, Any]


def reached_by_host_code(module: StaticModule, kernel: KernelSource) -> list[Reached]:
    """All calls of the kernel in the file's host code, in the order in which it makes them."""
    statements = module.host_code(kernel)
    entries = _entries(module.source, statements)
    found = _interpret_all(module, kernel, entries)
    if not any(r.args is not None for r in found):
        # Nothing that starts by itself calls it: perhaps a function that waits for arguments does.
        rest = [s for s in statements if isinstance(s, ast.FunctionDef) and s not in entries]
        found += _interpret_all(module, kernel, rest)
    return found


def made_by_defaults(
    module: StaticModule, kernel: KernelSource, given: Mapping[str, Any]
) -> tuple[Function, Any] | None:
    """The kernel's function and what its decorators make of it, each function around it called with
    `given`, its defaults, or unknown values. None if the definition is not reached.
    """
    around = (*kernel.found.outer, kernel.found.node)
    run = new_run(module.environment, module.source, module.scope, MODULE_LIMITS)
    function = make_function(run, around[0])
    reached: tuple[Function, Any] | None = None
    for inner in around[1:]:
        run.watched = inner
        run.reached.clear()
        receiver = receiver_of(module, kernel, function) if reached is None else {}
        with suppress(StopInterpreting, RecursionError):
            call_with_defaults(run, function, {**given, **receiver})
        if not run.reached:
            return None
        reached = run.reached[-1]
        function = reached[0]
    return reached


def receiver_of(module: StaticModule, kernel: KernelSource, function: Function) -> dict[str, Any]:
    """The first argument of a method: an object as its class makes it from unknown arguments."""
    args = all_arguments(function.node.args)
    cls = module.scope.names.get(kernel.found.owner or "")
    if not args or function.attributes.get("staticmethod") or not isinstance(cls, ClassValue):
        return {}
    if function.attributes.get("classmethod"):
        return {args[0].arg: cls}
    return {args[0].arg: _made_object(module, cls)}


def _made_object(module: StaticModule, cls: ClassValue) -> Instance:
    """Attributes that only `__init__` sets are known as far as it knows them; others are not."""
    made = Instance(cls, {})
    try:
        init = cls.find("__init__")
    except KeyError:
        return made
    if not isinstance(init, Function):
        return made
    run = new_run(module.environment, module.source, module.scope, MODULE_LIMITS)
    names = all_arguments(init.node.args)
    with suppress(StopInterpreting, RecursionError):
        call_with_defaults(run, init, {names[0].arg: made} if names else {})
    for name in _set_elsewhere(cls):
        made.attributes[name] = Unknown(f"`{name}` is set by several methods of {cls.name}")
    return made


def _set_elsewhere(cls: ClassValue) -> set[str]:
    found: set[str] = set()
    for name, value in cls.names.items():
        if name == "__init__" or not isinstance(value, Function):
            continue
        for node in ast.walk(value.node):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
    return found


def all_arguments(args: ast.arguments) -> list[ast.arg]:
    """Parameters in order, without `*args` and `**kwargs`."""
    return [*args.posonlyargs, *args.args, *args.kwonlyargs]


def call_with_defaults(run: Run, function: Function, given: Mapping[str, Any] | None = None) -> Any:
    """Interpret host code: parameters take what is `given`, else their defaults; others are Unknown."""
    at = function.source.span(function.node)
    values: dict[str, Argument] = {}
    for parameter in all_arguments(function.node.args):
        name = parameter.arg
        if given is not None and name in given:
            values[name] = Argument(given[name], at, name, at)
        elif name not in function.defaults:
            values[name] = Argument(Unknown(f"`{name}` has no value"), at, name, at)
    positional = [a.arg for a in function.node.args.posonlyargs]
    args = [values.pop(name) for name in positional if name in values]
    return call_function(run, function, args, values, function.node, at, all_passed=False)


def _entries(source: Source, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Host code that nothing else in it calls."""
    called: set[str] = set()
    for statement in statements:
        # A statement of the top level always parses on its own.
        used = names_used(statement_text(source, statement)) or frozenset()
        called |= used - {getattr(statement, "name", None)}
    return [
        s
        for s in statements
        if not isinstance(s, ast.ClassDef) and not (isinstance(s, ast.FunctionDef) and s.name in called)
    ]


def _interpret_all(
    module: StaticModule, kernel: KernelSource, statements: Sequence[ast.stmt]
) -> list[Reached]:
    found: list[Reached] = []
    steps = 0
    for statement in statements:
        if steps > _ALL_STEPS:
            break
        run = new_run(module.environment, module.source, module.scope, _HOST_LIMITS)
        run.watched = kernel.found.node
        run.on_lambda = partial(_call_lambda, run)
        run.host_names = module.scope.names, dict(module.scope.names)
        # A function may be called by anything, in the end; other statements run where they stand.
        early = {} if isinstance(statement, ast.FunctionDef) else module.rebindings.at(statement.lineno)
        with module.names_as(early):
            with suppress(StopInterpreting, RecursionError):
                _interpret(run, statement)
            found += _noticed(run, kernel)
        steps += run.steps
    return found


def _call_lambda(run: Run, made: Function) -> None:
    """`do_bench(lambda: kernel(a, b))`, `CASES = {"a": lambda: factory(128)}`: who gets it calls it."""
    args = made.node.args
    if all_arguments(args) or args.vararg or args.kwarg:
        return
    with suppress(StopInterpreting, RecursionError):
        call_with_defaults(run, made)


def _interpret(run: Run, statement: ast.stmt) -> None:
    if isinstance(statement, ast.FunctionDef):
        function = make_function(run, statement)
        for given in _parametrised(run, statement):
            call_with_defaults(run, function, given)
    elif isinstance(statement, ast.If) and is_main_guard(statement.test):
        run.exec(statement.body)
    else:
        run.exec([statement])


def _parametrised(run: Run, node: ast.FunctionDef) -> list[dict[str, Any]]:
    """Values that `@pytest.mark.parametrize("M, N", [(1, 2), ...])` gives a test, the first few; nothing for
    a function without.
    """
    given: list[dict[str, Any]] = [{}]
    for item in node.decorator_list:
        if not isinstance(item, ast.Call) or not ast.unparse(item.func).endswith("mark.parametrize"):
            continue
        names, values = (run.eval(a) for a in item.args[:2]) if len(item.args) > 1 else (None, None)
        names = names.replace(",", " ").split() if isinstance(names, str) else names
        if not isinstance(names, list | tuple) or not isinstance(values, list | tuple):
            continue
        rows = [v if len(names) > 1 else (v,) for v in values[:_MAX_ROWS]]
        known = [r for r in rows if isinstance(r, list | tuple) and len(r) == len(names)]
        given = [{**g, **dict(zip(names, r, strict=True))} for g in given for r in known][:_MAX_ROWS]
    return given or [{}]


def _noticed(run: Run, kernel: KernelSource) -> list[Reached]:
    values = {id(function): value for function, value in run.reached}
    calls = [c for c in run.host_calls if c.function.node is kernel.found.node]
    found = [_called(c, values) for c in calls]
    if kernel.found.outer:
        called = {id(c.function) for c in calls}
        now = run.names_now()
        found += [Reached(f, v, None, {}, now) for f, v in run.reached if id(f) not in called]
    return found


def _called(call: HostCall, values: Mapping[int, Any]) -> Reached:
    value = values.get(id(call.function), call.value)
    return Reached(call.function, value, call.args, call.kwargs, call.names)
