"""Statements: assignments, annotations that declare tensors, assertions, returns, definitions."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from tvm import ir

from tilelang.diagnostics.rules.python import (
    PYTHON_ERROR,
    UNKNOWN_ATTRIBUTE,
    UNKNOWN_NAME,
    UNSUPPORTED_PYTHON,
)
from tilelang.diagnostics.span import Span
from tilelang.frontend.annotations import evaluated_annotation
from tilelang.frontend.dtypes import dtype_name, looks_like_dtype
from tilelang.frontend.local_names import assigned_names
from tilelang.frontend.model import NO_VALUE, Flow, Frame, Late, TensorType
from tilelang.frontend.names import bind_name, bound_value, read_name
from tilelang.frontend.operations.debug_calls import device_assert
from tilelang.frontend.parameters import declare_parameter, pointer_type
from tilelang.frontend.python.augmented_buffers import report_augmented_buffer
from tilelang.frontend.python.decorators import decorated
from tilelang.frontend.python.discovery import resolve
from tilelang.frontend.python.expressions import apply_binary
from tilelang.frontend.python.functions import make_function
from tilelang.frontend.python.loops import thread_number, truth
from tilelang.frontend.python.plain_functions import DROPPED, is_kernel_statement, note_kernel_statement
from tilelang.frontend.python.subscripts import region
from tilelang.frontend.python.targets import assign, store, taint
from tilelang.frontend.run import Run
from tilelang.frontend.same_operands import is_place, note_same_places
from tilelang.frontend.scalars import any_traced, scalar
from tilelang.ir.tile_program import Evaluate
from tilelang.ir.values import Buffer, Region, Unknown
from tilelang.language.externs import ptr


def assignment(run: Run, node: ast.Assign) -> Flow | None:
    """`a = b = value`."""
    first = node.targets[0]
    value = _right_side(run, node.value, first)
    if isinstance(value, Frame) and value.name == "thread_binding":
        value = thread_number(run, value)
    if len(node.targets) > 1 and isinstance(value, ir.Expr):
        # Computed once, before any target changes.
        value = bound_value(run, "value", value, run.span(node.value))
    if isinstance(first, ast.Subscript) and len(node.targets) == 1 and is_place(value):
        note_same_places(run, first, node.value, run.span(node.value))
    at = run.span(node.value)
    if value is None and _is_nothing(node.value) and any(isinstance(t, ast.Subscript) for t in node.targets):
        value = _refuse_nothing(run, node, at)
    for target in node.targets:
        _assign_each(run, target, node.value, value, at)
    return None


def _assign_each(run: Run, target: ast.expr, node: ast.expr, value: Any, at: Span) -> None:
    """`target = value`; of tuples written on both sides each name by what stands opposite of it."""
    sides = (ast.Tuple, ast.List)
    if isinstance(target, sides) and isinstance(node, sides) and isinstance(value, tuple | list):
        names, parts = target.elts, node.elts
        if len(names) == len(parts) == len(value) and not any(
            isinstance(n, ast.Starred) for n in (*names, *parts)
        ):
            for name, part, item in zip(names, parts, value, strict=True):
                _assign_each(run, name, part, item, run.span(part))
            return
    assign(run, target, value, fresh_buffer=_is_new(run, node, value), value_span=at)


def _is_new(run: Run, node: ast.expr, value: Any) -> bool:
    """Whether a buffer on the right-hand side is made there, also as `T.alloc_var(...) if option else 0`."""
    if isinstance(node, ast.ListComp):
        return isinstance(node.elt, ast.Call)
    if isinstance(node, ast.IfExp):
        made = value.span if isinstance(value, Buffer) else None
        return any(isinstance(n, ast.Call) and run.span(n) == made for n in (node.body, node.orelse))
    return isinstance(node, ast.Call)


def _is_nothing(node: ast.expr) -> bool:
    """Whether an expression that gives None says so itself: None from elsewhere may wait for a value."""
    return isinstance(node, ast.Constant)


def _refuse_nothing(run: Run, node: ast.Assign, at: Span) -> Any:
    """`A[i] = None`, where A is a tensor or a tile."""
    for target in node.targets:
        owner = run.eval(target.value) if isinstance(target, ast.Subscript) else None
        owner = owner.region if isinstance(owner, Late) else owner
        if isinstance(owner, Buffer | Region):
            name = owner.name if isinstance(owner, Buffer) else owner.buffer.name
            return run.report(UNSUPPORTED_PYTHON, at, what=f"None cannot be stored in `{name}`")
    return None


def _right_side(run: Run, node: ast.expr, target: ast.expr) -> Any:
    """The value, with buffers in it named after the target."""
    pairs_up = (
        isinstance(target, ast.Tuple) and isinstance(node, ast.Tuple) and len(target.elts) == len(node.elts)
    )
    if pairs_up:
        values = [_right_side(run, n, t) for n, t in zip(node.elts, target.elts, strict=True)]  # type: ignore[attr-defined]
        # All right-hand sides are read before the first name is bound.
        return tuple(_settled(run, v, n) for v, n in zip(values, node.elts, strict=True))  # type: ignore[attr-defined]
    if not isinstance(target, ast.Name | ast.Attribute) or not isinstance(node, ast.Call | ast.IfExp):
        return run.eval(node)
    saved = run.binding_name
    name = target.id if isinstance(target, ast.Name) else target.attr.lstrip("_")
    run.binding_name = (name, run.span(target))
    try:
        return run.eval(node)
    finally:
        run.binding_name = saved


def _settled(run: Run, value: Any, node: ast.expr) -> Any:
    if isinstance(value, Region) and value.is_point:
        return run.late(value, "value")
    if isinstance(value, Buffer) and value.scope == "local.var" and not isinstance(node, ast.Call):
        value = scalar(run, value, run.span(node))
    if isinstance(value, ir.Expr):
        return bound_value(run, "value", value, run.span(node))  # it may read what is assigned before it
    return value


def augmented_assignment(run: Run, node: ast.AugAssign) -> Flow | None:
    """`target op= value`."""
    target = node.target
    if isinstance(target, ast.Name):
        return _augmented_name(run, node, target)
    if isinstance(target, ast.Subscript):
        owner = run.eval(target.value)
        if isinstance(owner, Late):
            owner = owner.region
        if isinstance(owner, Buffer | Region):
            place = region(run, owner, target)
            value = run.eval(node.value)
            if isinstance(place, Region):
                if not place.is_point:
                    report_augmented_buffer(run, node, place, value)
                    return None
                store(run, place, apply_binary(run, node, type(node.op), place, target, value, node.value))
            return None
    load: Any = ast.copy_location(_as_load(target), target)
    old = run.eval(load)
    value = run.eval(node.value)
    assign(run, target, apply_binary(run, node, type(node.op), old, load, value, node.value))
    return None


def _as_load(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Subscript):
        return ast.Subscript(target.value, target.slice, ast.Load())
    assert isinstance(target, ast.Attribute)
    return ast.Attribute(target.value, target.attr, ast.Load())


def _augmented_name(run: Run, node: ast.AugAssign, target: ast.Name) -> None:
    old = read_name(run, target)
    value = run.eval(node.value)
    if isinstance(old, Buffer) and old.scope != "local.var":
        report_augmented_buffer(run, node, Region(old, None, run.span(target)), value)
        return
    if isinstance(old, list) and isinstance(node.op, ast.Add) and isinstance(value, list | tuple):
        if run.context.maybe:
            taint(run, old)
        old.extend(value)  # `+=` changes the list itself
        return
    result = apply_binary(run, node, type(node.op), old, target, value, node.value)
    bind_name(run, target.id, result, run.span(target))


def annotated_assignment(run: Run, node: ast.AnnAssign) -> Flow | None:
    """`A: T.Tensor(...)` declares a parameter; with a value it is an assignment."""
    target = node.target
    in_signature = (
        node.value is None
        and isinstance(target, ast.Name)
        and run.scope is run.signature.node_scope
        and target.id in run.signature.names
    )
    if in_signature:
        assert isinstance(target, ast.Name)
        annotation = evaluated_annotation(run, node.annotation)
        if annotation is ptr:
            annotation = pointer_type("uint8", run.span(node))
        if isinstance(annotation, TensorType) or (
            looks_like_dtype(annotation) and dtype_name(annotation) and not isinstance(annotation, type)
        ):
            declare_parameter(run, target.id, annotation, run.span(target), run.span(node))
        elif isinstance(annotation, Unknown):
            run.scope.names[target.id] = annotation
        return None
    if node.value is not None:
        assign(
            run, target, _right_side(run, node.value, target), fresh_buffer=isinstance(node.value, ast.Call)
        )
        if isinstance(target, ast.Name) and run.at_class_level is not None and _is_field(node.annotation):
            run.at_class_level.append(target.id)
        return None
    if isinstance(target, ast.Name) and run.at_class_level is not None:
        if _is_field(node.annotation):
            run.at_class_level.append(target.id)
        return None
    if isinstance(target, ast.Name) and run.scope.names.get(target.id, NO_VALUE) is NO_VALUE:
        value = run.eval(node.annotation)
        if isinstance(value, TensorType):
            what = f"`{target.id}` is no parameter of the kernel, so T.Tensor cannot declare it"
            # Unknown from here on: its uses are no further mistakes.
            run.scope.names[target.id] = run.report(UNSUPPORTED_PYTHON, run.span(target), what=what)
    return None


def _is_field(annotation: ast.expr) -> bool:
    """Whether an annotated name of a class body is a field of its objects, as dataclasses see it."""
    text = annotation.value if isinstance(annotation, ast.Constant) else ast.unparse(annotation)
    return not isinstance(text, str) or not ("ClassVar" in text or text.rpartition(".")[2] == "KW_ONLY")


def expression_statement(run: Run, node: ast.Expr) -> Flow | None:
    """An expression for its effect."""
    if isinstance(node.value, ast.Constant):
        return None
    if run.calls and isinstance(node.value, ast.Call) and run.launch is not None:
        called = resolve(node.value.func, run.scope)
        if is_kernel_statement(called):
            note_kernel_statement(run, run.span(node), f"`{ast.unparse(node.value.func)}`", DROPPED)
    value = run.eval(node.value)
    if isinstance(value, ir.Call) and run.launch is not None:
        run.emit(Evaluate(value, run.span(node)))
    return None


def return_statement(run: Run, node: ast.Return) -> Flow | None:
    value = None if node.value is None else run.eval(node.value)
    if node.value is not None:
        run.return_spans[id(value)] = run.span(node.value)
    return Flow("return", value, run.span(node))


def assert_statement(run: Run, node: ast.Assert) -> Flow | None:
    """`assert`: a Python condition is checked now, a traced one is left to the device."""
    value = run.eval(node.test)
    if any_traced(value):
        condition = scalar(run, value, run.span(node.test))
        message = _message(run, node)
        text = message if isinstance(message, str) else ""
        if run.launch is not None:
            device_assert(run, condition, text, run.span(node.test), run.span(node))
        elif not run.launched and isinstance(condition, ir.Expr):
            run.promises.append(condition)
        return None
    known = value if isinstance(value, Unknown) else truth(value)
    if isinstance(known, Unknown) or known:
        return None
    if _asks_callers(run, {n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)}):
        return Flow("raise")
    message = _message(run, node)
    text = f": {message}" if isinstance(message, str) and message else ""
    run.report(PYTHON_ERROR, run.span(node.test), what=f"AssertionError: this assertion does not hold{text}")
    return Flow("raise")


def _asks_callers(run: Run, names: Iterable[str]) -> bool:
    """Whether a check that fails is one for a value that callers must give: it stands before the launch,
    nothing in the file calls the kernel, and one of `names` is None, the default.
    """
    if not run.by_defaults or run.launch is not None:
        return False
    if not any(scope is not None and value is None for scope, value in map(run.scope.find, names)):
        return False
    run.complete = False
    return True


def _message(run: Run, node: ast.Assert) -> Any:
    """The text of an assertion, made from what is known while tracing."""
    saved, run.quiet_text = run.quiet_text, True
    try:
        return "" if node.msg is None else run.eval(node.msg)
    finally:
        run.quiet_text = saved


def raise_statement(run: Run, node: ast.Raise) -> Flow | None:
    """`raise` that is reached: the kernel cannot be made with these values."""
    if _asks_callers(run, run.scope.names):
        return Flow("raise", "this raises", run.span(node))
    what = "this raises"
    if isinstance(node.exc, ast.Call) and node.exc.args:
        message = run.eval(node.exc.args[0])
        name = ast.unparse(node.exc.func)
        what = f"{name}: {message}" if isinstance(message, str) else f"this raises {name}"
    elif node.exc is not None:
        what = f"this raises {ast.unparse(node.exc)}"
    own = run.regions[len(run.scope.around) :]
    in_branch = any(region.kind == "branch" for region in own)  # which tells it itself
    if not run.context.maybe and not in_branch:
        run.report(PYTHON_ERROR, run.span(node), what=what)
    return Flow("raise", what, run.span(node))


def function_definition(run: Run, node: ast.FunctionDef) -> Flow | None:
    """`def`, with its decorators applied as the compiler understands them."""
    function = make_function(run, node)
    value = decorated(run, node, function)
    if node is run.watched:
        run.reached.append((function, value))
    bind_name(run, node.name, value, run.source.name_span(node))
    return None


def delete_statement(run: Run, node: ast.Delete) -> Flow | None:
    for target in node.targets:
        if isinstance(target, ast.Name):
            run.scope.names.pop(target.id, None)
        elif isinstance(target, ast.Subscript):
            taint(run, run.eval(target.value))
    return None


def nothing(run: Run, node: ast.stmt) -> Flow | None:
    """`pass`, `global`, `nonlocal`."""
    return None


def unsupported_statement(run: Run, node: ast.stmt) -> Flow | None:
    """`async` and what later Pythons bring: not interpreted, so what they bind is unknown."""
    if run.launch is not None:
        run.complete = False
        with run.guarded(maybe=True):
            word = _WORDS.get(type(node).__name__, type(node).__name__.lower())
            run.report(UNSUPPORTED_PYTHON, run.span(node), what=f"`{word}` is not interpreted in a kernel")
    for name in assigned_names(run.source, [node]):
        run.scope.names[name] = Unknown(f"`{name}` is bound by a statement that is not interpreted")
    return None


_WORDS = {"AsyncFunctionDef": "async def", "AsyncFor": "async for", "AsyncWith": "async with"}


# What Python raises where these are reported, and a handler may catch.
_RAISING = (PYTHON_ERROR.name, UNKNOWN_NAME.name, UNKNOWN_ATTRIBUTE.name)


def try_statement(run: Run, node: ast.Try) -> Flow | None:
    """`try`: the body is interpreted; what handlers bind may hold too. What the body raises is theirs."""
    flow = _tried(run, node)
    if flow is not None and flow.kind != "raise":
        run.exec(node.finalbody)
        return flow
    before = dict(run.scope.names)
    with run.guarded(maybe=True):
        for handler in node.handlers:
            if handler.name:
                run.scope.names[handler.name] = Unknown("an exception")
            run.exec(handler.body)
    for name, value in run.scope.names.items():
        # What the body bound stays what it most probably is; a fallback only fills gaps.
        if name in before and before[name] is not value:
            run.scope.names[name] = before[name] if not isinstance(before[name], Unknown) else value
    if flow is not None:
        return run.exec(node.finalbody) or (None if node.handlers else flow)
    return run.exec(node.orelse) or run.exec(node.finalbody)


def _tried(run: Run, node: ast.Try) -> Flow | None:
    """The body of a `try`, without the problems that its handlers are there for."""
    known, complete = len(run.problems), run.complete
    flow = run.exec(node.body)
    if node.handlers and len(run.problems) > known:
        left = [p for p in run.problems[known:] if p.rule not in _RAISING]
        if len(left) < len(run.problems) - known:
            run.problems[known:] = left
            run.complete = run.complete or (complete and not left)
    return flow
