"""Functions that are interpreted: definitions, parameters, calls, macros."""

from __future__ import annotations

import ast
import inspect
from dataclasses import replace
from typing import Any

from tvm import ir

from tilelang.diagnostics.span import Span
from tilelang.frontend.arguments import Argument, Bound, bind_arguments
from tilelang.frontend.local_names import assigned_names, declared_outer
from tilelang.frontend.model import NO_VALUE, UNBOUND, Function, Late
from tilelang.frontend.names import bound_value
from tilelang.frontend.python.generators import Suspended
from tilelang.frontend.python.host_functions import (
    generated,
    is_generator,
    outside_kernel,
    runs_in_python,
)
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import is_traced, kept, scalar
from tilelang.frontend.scope import Scope
from tilelang.ir.values import Buffer, Region, Unknown


def make_function(run: Run, node: ast.FunctionDef) -> Function:
    """The value of `def`; defaults are evaluated here, as Python does."""
    function = Function(node.name, node, run.source, run.scope, evaluated_defaults(run, node.args))
    function.call = _caller(run)
    return function


def make_lambda(run: Run, node: ast.Lambda) -> Function:
    """The value of `lambda`."""
    function = Function("lambda", node, run.source, run.scope, evaluated_defaults(run, node.args))
    function.call = _caller(run)
    return function


def evaluated_defaults(run: Run, args: ast.arguments) -> dict[str, Any]:
    """Default values by parameter name."""
    positional = [*args.posonlyargs, *args.args]
    found: dict[str, Any] = {}
    for parameter, default in zip(reversed(positional), reversed(args.defaults), strict=False):
        found[parameter.arg] = run.eval(default)
    for parameter, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        if default is not None:
            found[parameter.arg] = run.eval(default)
    return found


def _caller(run: Run) -> Any:
    """Lets Python code of ours (`sorted(key=f)`, `functools.reduce`) call an interpreted function."""

    def call(function: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
        at = function.source.span(function.node)
        return call_function(
            run,
            function,
            [Argument(a, at) for a in args],
            {k: Argument(v, at, k, at) for k, v in kwargs.items()},
            function.node,
            at,
        )

    return call


def signature(function: Function) -> inspect.Signature:
    """Python's view of the parameters; kept with the function."""
    found = function.attributes.get("__signature__")
    if found is None:
        found = _signature(function.node.args, function.defaults)
        function.attributes["__signature__"] = found
    return found


def _signature(args: ast.arguments, defaults: Any) -> inspect.Signature:
    kind = inspect.Parameter
    made = [
        kind(a.arg, kind.POSITIONAL_ONLY, default=defaults.get(a.arg, kind.empty)) for a in args.posonlyargs
    ]
    made += [
        kind(a.arg, kind.POSITIONAL_OR_KEYWORD, default=defaults.get(a.arg, kind.empty)) for a in args.args
    ]
    if args.vararg:
        made.append(kind(args.vararg.arg, kind.VAR_POSITIONAL))
    made += [kind(a.arg, kind.KEYWORD_ONLY, default=defaults.get(a.arg, kind.empty)) for a in args.kwonlyargs]
    if args.kwarg:
        made.append(kind(args.kwarg.arg, kind.VAR_KEYWORD))
    return inspect.Signature(made, __validate_parameters__=False)


def new_scope(function: Function) -> Scope:
    """The scope of one call: locals, and where `global` and `nonlocal` names live."""
    cached = function.attributes.get("__locals__")
    if cached is None:
        body = function.node.body if isinstance(function.node, ast.FunctionDef) else []
        names = assigned_names(function.source, body)
        globals_, nonlocals = declared_outer(body)
        cached = {n: s for n, s in names.items() if n not in globals_ | nonlocals}, globals_, nonlocals
        function.attributes["__locals__"] = cached
    locals_, globals_, nonlocals = cached
    outer: dict[str, Scope] = {}
    root = function.closure
    while root.parent is not None:
        root = root.parent
    for name in globals_:
        outer[name] = root
    for name in nonlocals:
        scope: Scope | None = function.closure
        while scope is not None and name not in scope.names:
            scope = scope.parent
        outer[name] = scope or function.closure
    return Scope(function.closure, locals_, owner=function.name, outer=outer, function=function)


def _lost(function: Function) -> str:
    """Why an argument is missing that a method's caller does not write."""
    if not function.attributes.get(UNBOUND) or [a.arg for a in function.node.args.args[:1]] != ["self"]:
        return ""
    return "; a T.macro in a class does not get its object as `self`: mark it with @T.inline, which does"


def call_function(
    run: Run,
    function: Function,
    args: list[Argument],
    kwargs: dict[str, Argument],
    node: ast.AST,
    span: Span,
    *,
    all_passed: bool = True,
) -> Any:
    """Interpret a call: parameters bound as Python binds them, the body in the caller's place of the tree.

    all_passed: whether `args` and `kwargs` are all that the caller passes; else `*args` and `**kwargs` are
    not known.
    """
    callee = f"`{function.name}`"
    bound = bind_arguments(run, signature(function), callee, args, kwargs, span, span, lost=_lost(function))
    if isinstance(bound, Unknown):
        return bound
    scope = new_scope(function)
    scope.around = tuple(run.regions)
    _bind_parameters(run, function, bound, scope)
    rests = [rest for rest in (function.node.args.vararg, function.node.args.kwarg) if rest is not None]
    if not all_passed:
        for rest in rests:
            scope.names[rest.arg] = Unknown(f"what is passed as `{rest.arg}` is not known here")
    if not rests:  # what becomes of a tile in a tuple is not on record
        given = [*args, *kwargs.values()]
        run.handed_on += [(a.span, a.value) for a in given if isinstance(a.value, Buffer)]
    with run.called(node, function.name), run.nested(run.block, run.context):
        saved = run.scope, run.source, run.loops, run.binding_name, run.maybe_returned
        run.scope, run.source, run.loops = scope, function.source, []
        run.binding_name, run.maybe_returned = None, []
        run.calls.append((function, span))
        try:
            return _run_body(run, function)
        finally:
            run.calls.pop()
            run.scope, run.source, run.loops, run.binding_name, run.maybe_returned = saved


def _run_body(run: Run, function: Function) -> Any:
    if isinstance(function.node, ast.Lambda):
        return run.eval(function.node.body)
    if runs_in_python(run, function):
        with outside_kernel(run):
            return generated(run, function) if is_generator(function) else _result(run, function)
    if is_generator(function):
        return Suspended(function, run.scope, run.calls[-1][1])
    return _result(run, function)


def _result(run: Run, function: Function) -> Any:
    assert isinstance(function.node, ast.FunctionDef)
    flow = run.exec(function.node.body)
    if flow is not None and flow.kind == "raise":
        return Unknown(f"`{function.name}` raises")
    value = flow.value if flow is not None and flow.kind == "return" else None
    if run.maybe_returned:
        return Unknown(f"what `{function.name}` returns depends on a condition that is not known")
    return value


def _bind_parameters(run: Run, function: Function, bound: Bound, scope: Scope) -> None:
    args = function.node.args
    named = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    for parameter in named:
        given = bound.arguments.get(parameter.arg)
        value = given.value if given is not None else function.defaults.get(parameter.arg, NO_VALUE)
        if value is NO_VALUE:
            value = Unknown(f"`{parameter.arg}` has no value")
        value = _passed(run, parameter, value)
        if function.is_macro and given is not None and not _is_reference(parameter.annotation):
            value = _once(run, parameter.arg, value, given.span)
        scope.names[parameter.arg] = value
        if isinstance(value, Region | Late) and _is_reference(parameter.annotation):
            scope.references.add(parameter.arg)
    if args.vararg:
        items = bound.items.get(args.vararg.arg, [])
        scope.names[args.vararg.arg] = tuple(kept(run, a.value, args.vararg.arg) for a in items)
    if args.kwarg:
        known = {p.arg for p in named}
        extra = {k: kept(run, a.value, k) for k, a in bound.arguments.items() if k not in known}
        scope.names[args.kwarg.arg] = extra


def _passed(run: Run, parameter: ast.arg, value: Any) -> Any:
    """An element is passed by value unless the parameter is a `T.Ref`; where a tile starts is passed as
    it is.
    """
    if _is_reference(parameter.annotation):
        region = value.region if isinstance(value, Late) else value
        return _with_fixed_place(run, parameter.arg, region) if isinstance(region, Region) else region
    if isinstance(value, Region) and value.is_point:
        return kept(run, value, parameter.arg)
    if isinstance(value, Buffer) and value.scope == "local.var":
        span = value.name_span
        return bound_value(run, parameter.arg, scalar(run, value, span), span)
    return value


def _with_fixed_place(run: Run, name: str, region: Region) -> Region:
    """The element that a reference stands for: where it lies is read at the call, not when it is used."""
    if run.launch is None or region.indices is None or not region.is_point:
        return region
    fixed = tuple(
        replace(i, start=bound_value(run, f"{name}_at", i.start, region.span)) for i in region.indices
    )
    return replace(region, indices=fixed)


def _once(run: Run, name: str, value: Any, span: Span) -> Any:
    """What a macro knows an argument as: computed once, before its statements, which may change what the
    argument reads or stand in branches where a shuffle would lack threads.
    """
    if run.launch is None or not isinstance(value, ir.Expr) or isinstance(value, Buffer):
        return value
    return bound_value(run, name, value, span)


def _is_reference(annotation: ast.expr | None) -> bool:
    """Whether a parameter is annotated `T.Ref`, or by its older name `T.Var`."""
    if annotation is None:
        return False
    name = ast.unparse(annotation).strip("'\"").rpartition(".")[2]
    return name.startswith("Ref") or name == "Var"


def needs_interpretation(args: list[Argument], kwargs: dict[str, Argument]) -> bool:
    """Whether a call passes anything that exists only when the kernel runs."""
    return any(_deep_traced(a.value) for a in (*args, *kwargs.values()))


def _deep_traced(value: Any) -> bool:
    if isinstance(value, tuple | list | set):
        return any(_deep_traced(v) for v in value)
    if isinstance(value, dict):
        return any(_deep_traced(v) for v in value.values())
    return is_traced(value) or isinstance(value, Unknown | Function)
