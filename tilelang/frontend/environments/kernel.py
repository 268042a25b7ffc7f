"""One kernel, interpreted: from a function and the values of its parameters to a tile program."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tvm import ir

from tilelang.diagnostics.problem import Edit, Fix, Related
from tilelang.diagnostics.rules.python import (
    BAD_ARGUMENTS,
    CONST_UNBOUND,
    CONST_UNUSED,
    FACTORY_RETURNS_NOTHING,
    OUTPUT_NOT_RETURNED,
    STEP_LIMIT,
)
from tilelang.diagnostics.span import Span
from tilelang.frontend.annotations import evaluated_annotation, is_scalar_type, native_annotation
from tilelang.frontend.deprecated import without_keyword
from tilelang.frontend.model import NO_VALUE, Function, PrimFunction, TensorType
from tilelang.frontend.operations.wgmma_calls import without_marks
from tilelang.frontend.parameters import declare_parameter, pointer_type
from tilelang.frontend.python.functions import new_scope
from tilelang.frontend.python.native_functions import NATIVE_ANNOTATIONS
from tilelang.frontend.run import Run, Signature, StopInterpreting, without_slots
from tilelang.frontend.scalars import named_type
from tilelang.frontend.scope import Scope
from tilelang.frontend.tensors import native_tensor
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_ops import SINGLE_PRODUCTS
from tilelang.ir.tile_program import Node, Param, Symbol, TileProgram
from tilelang.ir.values import Buffer, Unknown, as_int
from tilelang.language.externs import ptr
from tilelang.language.tensors import StridedTensor, Tensor


@dataclass(frozen=True)
class KernelRequest:
    """What to interpret: `values` by parameter name; parameters without one are Unknown unless they are
    tensors.
    """

    function: Function
    name: str
    qualified_name: str
    values: Mapping[str, Any] = field(default_factory=dict)
    consts: Mapping[str, int] = field(default_factory=dict)
    out_idx: Any = None
    stop_at_launch: bool = False
    under_jit: bool = False  # the author wants a kernel of it, whatever it returns
    specialisation: tuple[tuple[str, str], ...] = ()
    named: frozenset[str] = frozenset()  # sizes that a call of `compile` gives by name
    which: int = 0  # of the kernels that a factory makes


def trace_kernel(run: Run, request: KernelRequest) -> TileProgram:
    """Interpret an eager kernel, or a factory and the `@T.prim_func` it returns."""
    function = request.function
    run.kernel_span = function.source.function_span(definition(function))
    scope = new_scope(function)
    names = _parameter_names(function.node.args)
    for name in names:
        value = request.values.get(name, function.defaults.get(name, NO_VALUE))
        if value is NO_VALUE:
            value = Unknown(f"the parameter `{name}` has no value here")
        scope.names[name] = value
    for rest in (function.node.args.vararg, function.node.args.kwarg):
        if rest is not None:  # `*args` and `**options` of a factory
            lost = Unknown(f"what is passed as `{rest.arg}` is not known here")
            scope.names[rest.arg] = request.values.get(rest.arg, lost)
    run.signature = Signature(
        consts=request.consts, names=tuple(names), node_scope=scope, stop_at_launch=request.stop_at_launch
    )
    result, stopped = _interpret(run, function, scope)
    style: Literal["eager", "lazy"] = "eager"
    missing = [
        n for n in names if isinstance(scope.names.get(n), Unknown) and _not_given(request, function, n)
    ]
    returned = _kernels_in(result)
    if result is None and request.under_jit and not stopped and not run.launched:
        result = _not_returned(run, request, scope)
    elif not request.under_jit and not run.launched:
        result = returned[0] if returned else result
    siblings = _siblings(result, returned, scope) if isinstance(result, PrimFunction) else []
    aside = False
    if request.which and isinstance(result, PrimFunction):
        result = siblings[request.which - 1]
        aside = not any(r.function is result.function for r in returned)
        request = replace(request, out_idx=None)
    if isinstance(result, PrimFunction):
        style = "lazy"
        returns, stopped = _trace_prim(run, result)
        outputs = _lazy_outputs(
            run,
            request if result.out_idx is None else replace(request, out_idx=result.out_idx),
            returns,
            stopped,
        )
    else:
        missing = [n for n in missing if n not in run.signature.parameters]
        outputs = _returned(run, result) if not stopped else ()
        if request.out_idx is not None and run.launched:
            what = (
                "out_idx is for factories of kernels; here the outputs are what T.empty makes and the kernel "
            )
            what += "returns: remove it"
            node = definition(function)
            fixes = _without_option(run, node, "out_idx")
            run.report(BAD_ARGUMENTS, _outputs_span(run, node), fixes=fixes, callee="tilelang.jit", what=what)
    _check_consts(run, stopped or request.stop_at_launch, request.named)
    program = _program(run, request, style, outputs, missing)
    program.siblings, program.aside = len(siblings), aside
    return program


def _kernels_in(result: Any) -> list[PrimFunction]:
    """The kernels that a factory returns: one, or those of a tuple, list or dict, `return main, table`."""
    among = list(result.values()) if isinstance(result, dict) else result
    among = among if isinstance(among, tuple | list) else (among,)
    return [value for value in among if isinstance(value, PrimFunction)]


def _siblings(result: PrimFunction, returned: list[PrimFunction], scope: Scope) -> list[PrimFunction]:
    """The other kernels that a factory makes: those that it returns, then those that it only defines, which
    `T.prim_func` builds all the same.
    """
    defined = [v for v in scope.names.values() if isinstance(v, PrimFunction)]
    found: list[PrimFunction] = []
    for kernel in (*returned, *(d for d in defined if d.function.closure is scope)):
        if all(kernel.function is not other.function for other in (result, *found)):
            found.append(kernel)
    return found


def _not_returned(run: Run, request: KernelRequest, scope: Scope) -> PrimFunction | None:
    """The kernel that a factory defines last and forgets to return; a problem if there is one."""
    made = [v for v in scope.names.values() if isinstance(v, PrimFunction)]
    if not made:
        return None
    kernel = definition(made[-1].function)
    body = request.function.source.function_span(definition(request.function))
    line = f"return {kernel.name}"
    last = definition(request.function).body[-1]
    if isinstance(last, ast.Return):  # `return None`, or nothing
        edit = Edit(run.span(last), line)
    else:
        end = Span(body.path, body.end_line, body.end_column, body.end_line, body.end_column)
        edit = Edit(end, f"\n{' ' * last.col_offset}{line}")
    run.report(
        FACTORY_RETURNS_NOTHING,
        made[-1].function.source.name_span(kernel),
        fixes=(Fix(f"Add `{line}`", (edit,)),),
        factory=request.name,
        kernel=kernel.name,
    )
    return made[-1]


def trace_prim_function(run: Run, request: KernelRequest) -> TileProgram:
    """Interpret a `@T.prim_func` that stands by itself, or that running Python has made."""
    run.kernel_span = request.function.source.function_span(definition(request.function))
    returns, stopped = _trace_prim(run, PrimFunction(request.function))
    outputs = _lazy_outputs(run, request, returns, stopped)
    _check_consts(run, stopped, request.named)
    return _program(run, request, "lazy", outputs, [])


def definition(function: Function) -> ast.FunctionDef:
    """The `def` of a kernel. Raises TypeError for a lambda, which has no body of statements."""
    if isinstance(function.node, ast.Lambda):
        raise TypeError("a lambda cannot be a kernel")
    return function.node


def _not_given(request: KernelRequest, function: Function, name: str) -> bool:
    return name not in request.values and name not in function.defaults


def _parameter_names(args: ast.arguments) -> list[str]:
    return [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]


def _parameters(args: ast.arguments) -> list[ast.arg]:
    return [*args.posonlyargs, *args.args, *args.kwonlyargs]


def _without_option(run: Run, node: ast.FunctionDef, name: str) -> tuple[Fix, ...]:
    """The edit that removes a keyword from the decorator that has it."""
    for item in node.decorator_list:
        if isinstance(item, ast.Call) and any(k.arg == name for k in item.keywords):
            return without_keyword(run.source, item, name)
    return ()


def _interpret(run: Run, function: Function, scope: Any) -> tuple[Any, bool]:
    """Annotations of the signature, then the body. True if the run gave up or was asked to stop."""
    run.source, run.scope = function.source, scope
    try:
        _signature_annotations(run, function, only_tensors=True)
        flow = run.exec(definition(function).body)
    except StopInterpreting:
        return None, True
    except RecursionError:
        run.report(
            STEP_LIMIT,
            function.source.name_span(definition(function)),
            what="the kernel is nested too deeply",
        )
        run.complete = False
        return None, True
    if flow is not None and flow.kind == "raise":
        run.complete = False
        return Unknown("the kernel raises"), False
    if flow is not None and flow.kind == "return":
        return flow.value, False
    if run.maybe_returned:
        kernel = next((v for v in run.maybe_returned if isinstance(v, PrimFunction)), None)
        return kernel or Unknown("what is returned depends on a condition that is not known"), False
    return None, False


def _signature_annotations(run: Run, function: Function, *, only_tensors: bool) -> None:
    """`A: T.Tensor(...)` in the signature, evaluated among the names around the function."""
    own = run.scope
    native = function.attributes.get(NATIVE_ANNOTATIONS, {})
    for parameter in _parameters(function.node.args):
        if parameter.annotation is None:
            continue
        made = native_annotation(native.get(parameter.arg))
        if isinstance(made, Tensor | StridedTensor):
            annotation = native_tensor(run, made, parameter.annotation)
        elif (
            is_scalar_type(made)
            and type(made) is not str  # the text of an annotation that nothing has evaluated
            and not _found(function.closure, parameter.annotation)
        ):
            annotation = made  # Python keeps no cell for a name that stands in annotations alone
        else:
            run.scope = function.closure
            try:
                annotation = evaluated_annotation(run, parameter.annotation)
            finally:
                run.scope = own
        at = run.span(parameter)
        name_span = Span(at.path, at.line, at.column, at.line, at.column + len(parameter.arg))
        scalar_type = is_scalar_type(annotation)
        if annotation is ptr:
            annotation = pointer_type("uint8", at)
        if isinstance(annotation, TensorType) or scalar_type:
            declare_parameter(run, parameter.arg, annotation, name_span, at)
        elif not only_tensors:
            run.complete = False
            own.names[parameter.arg] = (
                annotation
                if isinstance(annotation, Unknown)
                else Unknown("a parameter without a tensor type")
            )


def _found(scope: Scope, node: ast.expr) -> bool:
    """Whether each name in an expression is found from `scope` on."""
    names = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
    return all(scope.find(n)[1] is not NO_VALUE for n in names)


def _lazy_outputs(run: Run, request: KernelRequest, result: Any, stopped: bool) -> tuple[str, ...]:
    """Names of the outputs of a prim_func: those of `out_idx`, or what T.empty makes and `result` returns."""
    makes = any(b.role == "output" for b in run.buffers)  # before `out_idx` gives parameters that role
    returned = _returned(run, result) if not stopped and (makes or result is not None) else ()
    named = _out_idx(run, request)
    if named and returned:
        what = "Out index conflict: the kernel returns what T.empty makes, so out_idx must not name outputs"
        run.report(
            BAD_ARGUMENTS, _outputs_span(run, definition(request.function)), callee="out_idx", what=what
        )
    return named or returned


def _trace_prim(run: Run, kernel: PrimFunction) -> tuple[Any, bool]:
    """Interpret the body of a prim_func in the place where it was defined: what it returns, and whether the
    run gave up.
    """
    function = kernel.function
    scope = new_scope(function)
    names = _parameter_names(function.node.args)
    run.signature = Signature(names=tuple(names), node_scope=scope)
    for name in names:
        scope.names[name] = Unknown(f"`{name}` has no T.Tensor annotation")
    run.source, run.scope, run.loops, run.regions = function.source, scope, [], []
    try:
        _signature_annotations(run, function, only_tensors=False)
        flow = run.exec(definition(function).body)
    except StopInterpreting:
        return None, True
    return (flow.value if flow is not None and flow.kind == "return" else None), False


def _returned(run: Run, result: Any) -> tuple[str, ...]:
    """Names of the returned outputs; problems for outputs that are not returned, and for returned values
    that are none.
    """
    made = [b for b in run.buffers if b.role == "output"]
    if isinstance(result, Unknown):
        run.complete = False
        return tuple(b.name for b in made)
    values = list(result) if isinstance(result, tuple | list) else [] if result is None else [result]
    span = run.return_spans.get(id(result), run.kernel_span)
    returned = [v for v in values if isinstance(v, Buffer) and v.role == "output"]
    for value in values:
        if isinstance(value, Unknown):
            run.complete = False
            return tuple(b.name for b in made)
        if value not in returned if isinstance(value, Buffer) else True:
            _wrong_return(run, value, span)
    for buffer in made:
        if buffer not in returned:
            name = _name_of(run, buffer)
            advice = (
                "return what the function gives that makes it" if name is None else f"add `return {name}`"
            )
            what = f"`{name or buffer.name}` is made by T.empty but not returned; {advice}"
            fixes = _return_fix(run, made) if result is None else _returned_too(run, buffer)
            run.report(OUTPUT_NOT_RETURNED, buffer.name_span, fixes=fixes, what=what)
    return tuple(b.name for b in returned)


def _name_of(run: Run, buffer: Buffer) -> str | None:
    """The name that the kernel has for an output; a helper that makes one has names of its own."""
    names = [name for name, value in run.scope.names.items() if value is buffer]
    return buffer.name if buffer.name in names else next(iter(names), None)


def _return_fix(run: Run, made: list[Buffer]) -> tuple[Fix, ...]:
    """`return B` behind a body that returns nothing anywhere."""
    function = run.scope.function
    names = [_name_of(run, b) for b in made]
    if function is None or run.source.path != made[0].name_span.path or None in names:
        return ()
    body = definition(function).body
    if any(isinstance(n, ast.Return) for statement in body for n in ast.walk(statement)):
        return ()
    end = run.span(body[-1])
    at = Span(end.path, end.end_line, end.end_column, end.end_line, end.end_column)
    indent = run.source.lines[body[-1].lineno - 1][: body[-1].col_offset]
    new = f"return {', '.join(n for n in names if n is not None)}"
    return (Fix(f"Add `{new}`", (Edit(at, f"\n{indent}{new}"),)),) if not indent.strip() else ()


def _returned_too(run: Run, buffer: Buffer) -> tuple[Fix, ...]:
    """The only `return` of the body with one more output, behind the others or before them, and without what
    is none.
    """
    function, own = run.scope.function, _name_of(run, buffer)
    if function is None or run.source.path != buffer.name_span.path or own is None:
        return ()
    returns = [n for s in definition(function).body for n in ast.walk(s) if isinstance(n, ast.Return)]
    value = returns[0].value if len(returns) == 1 else None
    items = value.elts if isinstance(value, ast.Tuple) else [value]
    names = [item.id for item in items if isinstance(item, ast.Name)]
    if value is None or not names or len(names) != len(items):
        return ()
    outputs = [name for name in names if getattr(run.scope.names.get(name), "role", None) == "output"]
    texts = dict.fromkeys((", ".join([*outputs, own]), ", ".join([own, *outputs])))
    return tuple(Fix(f"Write `return {text}`", (Edit(run.span(value), text),)) for text in texts)


def _wrong_return(run: Run, value: Any, span: Span) -> None:
    if isinstance(value, Buffer):
        related = (Related(value.name_span, f"`{value.name}` is declared here"),)
        what = f"`{value.name}` is returned, but only tensors made by T.empty may be"
        run.report(OUTPUT_NOT_RETURNED, span, related=related, what=what)
        return
    kind = "a value of the kernel" if isinstance(value, ir.Expr) else named_type(value)
    if not run.launched and not isinstance(value, ir.Expr):
        run.complete = False  # a factory of something else
        return
    run.report(OUTPUT_NOT_RETURNED, span, what=f"{kind} is returned, but only tensors made by T.empty may be")


def _out_idx(run: Run, request: KernelRequest) -> tuple[str, ...]:
    """`out_idx` of the decorator as names; a problem for an index that is no tensor parameter."""
    given = request.out_idx
    if given is None:
        return ()
    if isinstance(given, Unknown):
        run.complete = False
        return ()
    entries: Sequence[Any] = given if isinstance(given, tuple | list) else [given]
    params = _ordered_parameters(run)
    names = []
    for entry in entries:
        number = as_int(entry)
        if number is None or len(params) < len(run.signature.names):  # a parameter's tensor is not known
            run.complete = False
            continue
        if not -len(params) <= number < len(params) or params[number].buffer is None:
            what = (
                f"out_idx {number}: the kernel has {len(params)} parameters, and that is no tensor among them"
            )
            at = _outputs_span(run, definition(request.function))
            run.report(BAD_ARGUMENTS, at, callee="tilelang.jit", what=what)
            continue
        buffer = params[number].buffer
        assert buffer is not None
        if buffer.name in names:
            what = f"out_idx {number}: {buffer.name} is among the outputs already"
            at = _outputs_span(run, definition(request.function))
            run.report(BAD_ARGUMENTS, at, callee="tilelang.jit", what=what)
            continue
        buffer.role = "output"
        names.append(buffer.name)
    return tuple(names)


def _outputs_span(run: Run, node: ast.FunctionDef) -> Span:
    """Where a decorator of the kernel or of the factory around it says `out_idx`, else the kernel's name."""
    end = node.end_lineno or node.lineno
    around = [
        d
        for d in ast.walk(run.source.tree)
        if isinstance(d, ast.FunctionDef) and d.lineno <= node.lineno and end <= (d.end_lineno or d.lineno)
    ]
    for function in sorted(around, key=lambda d: d.lineno, reverse=True):
        for decorator in function.decorator_list:
            for keyword in decorator.keywords if isinstance(decorator, ast.Call) else ():
                if keyword.arg == "out_idx":
                    return run.span(keyword.value)
    return run.source.name_span(node)


def _ordered_parameters(run: Run) -> list[Param]:
    declared = run.signature.parameters
    return [declared[n] for n in run.signature.names if n in declared]


def _check_consts(run: Run, stopped: bool, named: frozenset[str]) -> None:
    """Every T.const stands by itself in a shape or a stride."""
    entries = [
        entry
        for p in run.signature.parameters.values()
        if p.buffer is not None
        for entry in (*p.buffer.shape, *(p.buffer.strides or ()))
    ]
    lost = any(isinstance(e, Unknown) for e in entries) or _undeclared_tensors(run)
    for symbol in run.symbols:
        if symbol.kind != "const" or symbol.name in run.signature.consts or symbol.name in named:
            continue
        if any(isinstance(e, ir.Var) and e.same_as(symbol.var) for e in entries):
            continue
        if stopped or lost:
            continue
        if symbol.name not in run.used_names:
            fixes = _without_const(run, symbol)
            run.report(CONST_UNUSED, symbol.span, fixes=fixes, tags=("unnecessary",), name=symbol.name)
        else:
            run.report(CONST_UNBOUND, symbol.span, related=_used_in(run, symbol), name=symbol.name)


def _used_in(run: Run, symbol: Symbol) -> tuple[Related, ...]:
    """Arguments of whose shape the size is a part: `M + 1` does not say what M is."""
    buffers = [p.buffer for p in run.signature.parameters.values() if p.buffer is not None]
    return tuple(
        Related(b.span, f"a size of {b.name} is computed from {symbol.name}")
        for b in buffers
        if any(symbol.var in free_vars(n) for n in (*b.shape, *(b.strides or ())))
    )


def _without_const(run: Run, symbol: Symbol) -> tuple[Fix, ...]:
    """The edit that takes one name out of `N, M = T.const("N, M")`, or the whole statement."""
    scope = run.signature.node_scope
    if scope is None or scope.function is None:
        return ()
    source = scope.function.source
    for node in ast.walk(scope.function.node):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.value, ast.Call):
            continue
        call, target = node.value, node.targets[0]
        if len(call.args) != 1 or source.span(call.args[0]) != symbol.span:
            continue
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        texts = [n.id for n in names if isinstance(n, ast.Name)]
        declared = str(getattr(call.args[0], "value", "")).replace(",", " ").split()
        if len(texts) != len(names) or len(declared) != len(texts) or symbol.name not in declared:
            return ()
        index, whole = declared.index(symbol.name), source.span(node)
        if len(texts) == 1:
            edit = Edit(Span(whole.path, whole.line, 1, whole.end_line + 1, 1), "")
            return (Fix(f"Remove `{symbol.name}`", (edit,)),)
        left = ", ".join(texts[:index] + texts[index + 1 :])
        kept = ", ".join(declared[:index] + declared[index + 1 :])
        new = f'{left} = {ast.unparse(call.func)}("{kept}")'
        return (Fix(f"Remove `{symbol.name}`", (Edit(whole, new),)),)
    return ()


def _undeclared_tensors(run: Run) -> bool:
    """A parameter whose annotation was unknown may have held the const."""
    scope = run.signature.node_scope
    return scope is not None and any(
        isinstance(scope.names.get(n), Unknown) and n not in run.signature.parameters and n in scope.locals
        for n in run.signature.names
    )


def _statements(run: Run) -> list[Node]:
    body = without_slots(run.body)
    return body if SINGLE_PRODUCTS in run.attrs else without_marks(body)


def _program(
    run: Run,
    request: KernelRequest,
    style: Literal["eager", "lazy"],
    outputs: tuple[str, ...],
    missing: list[str],
) -> TileProgram:
    params = _ordered_parameters(run)
    made = {b.name: b for b in run.buffers if b.role == "output" and b.name not in {p.name for p in params}}
    params += [Param(n, made[n], None, made[n].name_span) for n in outputs if n in made]
    indices = tuple(k for k, p in enumerate(params) if p.name in outputs)
    unlaunched = style == "lazy" and run.complete and not run.launched and bool(run.body)
    if not run.launched:
        run.complete = False
    function = request.function
    return TileProgram(
        name=request.name,
        qualified_name=request.qualified_name,
        style=style,
        span=function.source.function_span(definition(function)),
        name_span=function.source.name_span(definition(function)),
        params=params,
        body=_statements(run),
        buffers=run.buffers,
        uses=[(span, buffer) for (span, _), buffer in run.uses.items()],
        handed_on=run.handed_on,
        accesses=run.accesses,
        symbols=run.symbols,
        outputs=indices,
        specialisation=request.specialisation,
        missing=tuple(missing),
        problems=run.problems,
        promises=tuple(run.promises),
        attrs=run.attrs,
        unsupported=tuple(run.unsupported),
        complete=run.complete,
        unlaunched=unlaunched,
    )
