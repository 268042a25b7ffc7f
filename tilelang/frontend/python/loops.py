"""`for` and `while`: loops of the kernel, and loops over Python values that run while tracing."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS, STEP_LIMIT, UNSUPPORTED_PYTHON
from tilelang.diagnostics.span import Span
from tilelang.frontend.constants import any_not_given, not_given
from tilelang.frontend.dtypes import is_float
from tilelang.frontend.model import ClassValue, Flow, Frame, Instance, TooLong
from tilelang.frontend.operations.intrinsics import ceildiv
from tilelang.frontend.operations.layout_calls import loop_layout_text
from tilelang.frontend.operators import as_bool, binary, fold
from tilelang.frontend.python.discovery import resolve
from tilelang.frontend.python.generators import Suspended, all_items, generator_loop, run_generator
from tilelang.frontend.python.persistent import persistent_loop
from tilelang.frontend.python.plain_functions import in_plain_function, note_kernel_statement
from tilelang.frontend.python.targets import assign
from tilelang.frontend.regions import leave_loop, traced_region
from tilelang.frontend.run import LoopEntry, Run
from tilelang.frontend.scalars import any_unknown, dtype_of_expr, scalar
from tilelang.frontend.tensors import read_size
from tilelang.ir.skipped_rest import SHARED_LOOPS
from tilelang.ir.tile_program import Context, For, Jump, Loop
from tilelang.ir.values import Buffer, Region, Unknown, as_int, show
from tilelang.language.names import declared_name
from tilelang.layout.annotated import LOOP_LAYOUT

_THREADS = {"threadIdx.x": 0, "threadIdx.y": 1, "threadIdx.z": 2}
_LEAVING = ("loop_break", "break_loop", "thread_return")
_NOT_ANNOTATIONS = ("start", "stop", "step", "extents", "annotations")


def for_statement(run: Run, node: ast.For) -> Flow | None:
    """`for target in iterator`."""
    value = run.eval(node.iter)
    span = run.span(node.iter)
    if isinstance(value, Frame):
        if value.name == "Kernel":
            run.report(
                UNSUPPORTED_PYTHON, span, what="T.Kernel is a launch: write `with T.Kernel(...) as bx:`"
            )
            return None
        note_kernel_statement(run, value.span, f"the loop over T.{value.name}")
        return frame_loop(run, node, value)
    if isinstance(value, range) and in_plain_function(run) and not _runs_on_device(run, value):
        return _python_loop(run, node, value, span)  # Python runs such a function, so it may index lists
    if isinstance(value, range | SymbolicRange) and (run.launch is not None or _runs_on_device(run, value)):
        return _range_loop(run, node, value, span)
    if isinstance(value, Suspended):
        bind = partial(assign, run, node.target, of_loop=True)
        return generator_loop(run, node, value, bind, span)
    if isinstance(value, Unknown) or id(value) in run.tainted:
        return _unknown_loop(run, node, span)
    return _python_loop(run, node, value, span)


class SymbolicRange:
    """`range` over a bound that is known only when the kernel runs."""

    def __init__(self, start: Any, stop: Any, step: Any) -> None:
        self.start, self.stop, self.step = start, stop, step

    @property
    def bounds(self) -> list[Any]:
        return [self.start, self.stop, self.step]


def _runs_on_device(run: Run, value: range | SymbolicRange) -> bool:
    """Whether a range outside of a launch has no numbers even when the kernel is compiled."""
    return isinstance(value, SymbolicRange) and any_not_given(run, value.bounds) is None


def symbolic_range(run: Run, args: list[Any], span: Span) -> Any:
    """The value of `range(...)` with a traced argument."""
    values = [read_size(run, a, span, "a bound of a loop") for a in args]
    unknown = any_unknown(values)
    if unknown is not None:
        return unknown
    if not 1 <= len(values) <= 3:
        return run.report(
            BAD_ARGUMENTS, span, callee="range", what=f"takes 1 to 3 arguments, not {len(values)}"
        )
    start, stop = (0, values[0]) if len(values) == 1 else values[:2]
    return SymbolicRange(start, stop, values[2] if len(values) == 3 else 1)


# -- loops of the kernel


def frame_loop(run: Run, node: ast.For, frame: Frame) -> Flow | None:
    """A loop over what a call of the language gave: T.serial, T.Parallel, T.Pipelined, ..."""
    if frame.name == "Persistent":
        return persistent_loop(run, node, frame)
    if frame.name in ("Parallel", "grid"):
        extents = tuple(
            read_size(run, e, frame.spans.get(f"extents.{k}", frame.span), "an extent")
            for k, e in enumerate(frame.arguments["extents"])
        )
        if not extents:
            run.report(BAD_ARGUMENTS, frame.span, callee=f"T.{frame.name}", what="needs at least one extent")
            return None
        if frame.name == "grid":
            return _grid_loop(run, node, extents, frame.span)
        notes = _notes(frame)
        span = frame.spans.get("loop_layout", frame.span)
        layout = loop_layout_text(run, notes.pop("loop_layout", None), extents, span, "T.Parallel")
        if isinstance(layout, Unknown):
            run.complete = False
        elif layout is not None:
            notes[LOOP_LAYOUT] = layout
        loop = _make_loop(run, node, "Parallel", (0,) * len(extents), extents, 1, frame.span, notes)
        return _traced_loop(run, node, loop)
    if frame.name == "thread_binding":
        return _thread_loop(run, node, frame)
    if frame.arguments.get("explicit") and frame.arguments.get("unroll_factor") is not None:
        what = "explicit writes out every iteration, so unroll_factor must go; or explicit"
        run.report(BAD_ARGUMENTS, frame.span, callee="T.unroll", what=what)
    start, stop, step = _bounds(run, frame)
    notes = _notes(frame)
    if any_unknown(list(notes.values())) is not None:
        run.complete = False
    return _counted_loop(run, node, frame.name, start, stop, step, frame.span, notes)


def _thread_loop(run: Run, node: ast.For, frame: Frame) -> Flow | None:
    """`for i in T.thread_binding(extent, "threadIdx.x")`: each thread runs the body once, for its number."""
    errors = len(run.problems)
    number = thread_number(run, frame)
    if isinstance(number, Unknown) and len(run.problems) > errors:
        return None
    assign(run, node.target, number, of_loop=True)
    return run.exec(node.body)


def thread_number(run: Run, frame: Frame) -> Any:
    """What `T.thread_binding(extent, "threadIdx.x")` stands for: the thread's own number along one dimension
    of the block, counted from the start that is given.
    """
    arguments = dict(frame.arguments)
    thread = arguments.get("thread")
    if thread is None and isinstance(arguments.get("stop"), str):  # T.thread_binding(extent, "threadIdx.x")
        thread, arguments["stop"] = arguments["stop"], None
    start, stop, _ = _bounds(run, replace(frame, arguments=arguments))
    launch = run.launch
    lost = any_unknown([start, stop, thread])
    if lost is None and launch is not None and launch.threads is None:
        lost = Unknown("the number of threads is not known")
    if lost is not None:
        run.complete = False
        return lost
    if launch is None or launch.threads is None:
        what = "stands outside `with T.Kernel(...)`"
    elif thread not in _THREADS:
        what = f"`thread` is one of {', '.join(map(repr, _THREADS))}, not {thread!r}"
    else:
        axis = _THREADS[thread]
        count = [*launch.threads, 1, 1][axis]
        if as_int(_distance(run, start, stop)) == count:
            number = [*launch.thread_vars, 0, 0][axis]
            return number if as_int(start) == 0 else binary(ast.Add, start, number)
        what = f"the block has {count} threads along {thread}, so the loop has as many iterations"
    return run.report(BAD_ARGUMENTS, frame.span, callee="T.thread_binding", what=what)


def _counted_loop(
    run: Run, node: ast.For, kind: Any, start: Any, stop: Any, step: Any, span: Span, notes: dict[str, Any]
) -> Flow | None:
    """A loop from start to stop. With a step other than 1 the variable counts iterations, and the name is
    computed.
    """
    if as_int(step) == 1:
        loop = _make_loop(run, node, kind, (start,), (_distance(run, start, stop),), 1, span, notes)
        return _traced_loop(run, node, loop)
    lost = not_given(run, step)
    step = step if lost is None else lost
    number = as_int(step)
    if any_unknown([step, start, stop]) is not None:
        trips: Any = any_unknown([step, start, stop])
    elif number is None:  # known at run time, and then positive
        trips = ceildiv(_distance(run, start, stop), step)
    elif number > 0:
        trips = ceildiv(_distance(run, start, stop), number)
    else:
        trips = ceildiv(_distance(run, stop, start), -number)
    if isinstance(trips, int):
        trips = max(trips, 0)
    loop = _make_loop(run, node, kind, (0,), (trips,), 1, span, notes)
    return _traced_loop(run, node, loop, lambda var: binary(ast.Add, start, binary(ast.Mult, var, step)))


def _grid_loop(run: Run, node: ast.For, extents: tuple[Any, ...], span: Span) -> Flow | None:
    """`T.grid`: serial loops inside each other, one per extent; the body stands in the innermost."""
    names = _target_names(node.target, len(extents))
    loops = [
        _make_loop(run, node, "serial", (0,), (e,), 1, span, {}, name)
        for name, e in zip(names, extents, strict=True)
    ]
    variables = tuple(loop.vars[0] for loop in loops)
    block, saved = run.block, run.context
    for loop in loops[:-1]:
        made = For(loop, [])
        run.emit(made)
        run.block = made.body
        run.context = Context((*run.context.loops, loop), run.context.guards, run.context.maybe)
    try:
        return _traced_loop(run, node, loops[-1], lambda _: variables if len(loops) > 1 else variables[0])
    finally:
        run.block, run.context = block, saved


def _notes(frame: Frame) -> dict[str, Any]:
    notes = {k: v for k, v in frame.arguments.items() if k not in _NOT_ANNOTATIONS and v is not None}
    extra = frame.arguments.get("annotations")
    if isinstance(extra, dict):
        notes |= {str(k): v for k, v in extra.items()}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in notes.items()}


def _bounds(run: Run, frame: Frame) -> tuple[Any, Any, Any]:
    given = frame.arguments
    start_span, stop_span = frame.spans.get("start", frame.span), frame.spans.get("stop", frame.span)
    start = read_size(run, given["start"], start_span, "a bound of a loop")
    if given.get("stop") is None:
        start, stop = 0, start
    else:
        stop = read_size(run, given["stop"], stop_span, "a bound of a loop")
    step = given.get("step")
    step = 1 if step is None else read_size(run, step, frame.spans.get("step", frame.span), "a step")
    if as_int(step) == 0:
        run.report(
            BAD_ARGUMENTS, frame.spans.get("step", frame.span), callee=f"T.{frame.name}", what="the step is 0"
        )
        step = 1
    return start, stop, step


def _range_loop(run: Run, node: ast.For, value: Any, span: Span) -> Flow | None:
    return _counted_loop(run, node, "serial", value.start, value.stop, value.step, span, {})


def _distance(run: Run, start: Any, stop: Any) -> Any:
    """`stop - start`, simplified."""
    if any_unknown([start, stop]) is not None:
        return any_unknown([start, stop])
    if as_int(start) == 0:
        return stop
    length = binary(ast.Sub, stop, start)
    return fold(run.analyzer.simplify(length)) if isinstance(length, ir.Expr) else length


def _make_loop(
    run: Run,
    node: ast.For,
    kind: Any,
    mins: tuple[Any, ...],
    extents: tuple[Any, ...],
    step: Any,
    span: Span,
    notes: dict[str, Any],
    name: str | None = None,
) -> Loop:
    names = _target_names(node.target, len(extents)) if name is None else [name]
    kinds = [_var_dtype(m, e) for m, e in zip(mins, extents, strict=True)]
    variables = tuple(run.fresh(n, d) for n, d in zip(names, kinds, strict=True))
    if any_unknown(list(extents)) is not None:
        run.complete = False
    return Loop(kind, variables, mins, extents, span, step, notes)


def _var_dtype(start: Any, extent: Any) -> str:
    """int32, unless a bound is wider."""
    found = [dtype_of_expr(v) for v in (start, extent) if isinstance(v, ir.Expr)]
    wide = [d for d in found if not is_float(d) and d.endswith("64")]
    return wide[0] if wide else "int32"


def _target_names(target: ast.expr, count: int) -> list[str]:
    elements = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    names = [e.id if isinstance(e, ast.Name) else f"i{k}" for k, e in enumerate(elements)]
    base = names[0] if len(names) == 1 else "i"
    while len(names) < count:
        names.append(f"{base}_{len(names)}")
    return [f"v{k}" if n == "_" else n for k, n in enumerate(names[:count])]


def _traced_loop(
    run: Run, node: ast.For, loop: Loop, value_of: Callable[[ir.Var], Any] | None = None
) -> Flow | None:
    """The body, once, with the loop's variables (or what `value_of` computes from the only one)."""
    made = For(loop, [])
    run.emit(made)
    context = Context((*run.context.loops, loop), run.context.guards, run.context.maybe)
    region_of = traced_region(run, "loop", loop.span, parallel=loop.kind == "Parallel")
    with run.nested(made.body, context), region_of as region:
        run.loops.append(LoopEntry(True, len(run.regions)))
        if value_of is None:
            _bind_variables(run, node, loop)
        else:
            assign(run, node.target, value_of(loop.vars[0]), of_loop=True)
        flow = run.exec(node.body)
        run.loops.pop()
    leave_loop(run, region)
    if flow is not None and flow.kind == "return":
        what = "a `return` cannot stand inside a loop of the kernel"
        run.report(UNSUPPORTED_PYTHON, flow.span or loop.span, what=what)
    if node.orelse:
        run.report(UNSUPPORTED_PYTHON, run.span(node.orelse[0]), what="a loop of the kernel has no `else`")
    return None


def _bind_variables(run: Run, node: ast.For, loop: Loop) -> None:
    target = node.target
    if isinstance(target, ast.Tuple | ast.List):
        if len(target.elts) != len(loop.vars):
            count = len(loop.vars)
            plural = "" if count == 1 else "s"
            what = f"the loop has {count} variable{plural}, but {len(target.elts)} names are bound"
            called = ast.unparse(node.iter.func) if isinstance(node.iter, ast.Call) else f"T.{loop.kind}"
            if called.endswith(".parallel"):
                what += "; T.Parallel takes several extents"
            run.report(BAD_ARGUMENTS, run.span(target), callee=called, what=what)
            assign(run, target, Unknown(what))
            return
        assign(run, target, tuple(loop.vars), of_loop=True)
        return
    assign(run, target, loop.vars[0] if len(loop.vars) == 1 else tuple(loop.vars), of_loop=True)


def _unknown_loop(run: Run, node: ast.For, span: Span, reason: TooLong | None = None) -> Flow | None:
    """A loop over something unknown: the body is interpreted once, and may not be there at all."""
    run.complete = False
    lost = Unknown("what the loop runs over is not known")
    var = run.fresh("i")
    loop = Loop("serial", (var,), (0,), (lost,), span)
    made = For(loop, [])
    run.emit(made)
    context = Context((*run.context.loops, loop), run.context.guards, True)
    with run.nested(made.body, context), traced_region(run, "branch", span) as region:
        run.loops.append(LoopEntry(True, len(run.regions)))
        assign(run, node.target, lost, of_loop=True)
        run.exec(node.body)
        run.loops.pop()
    for scope, name in region.bound:
        scope.names[name] = (
            lost if reason is None else TooLong(f"`{name}` is made by a loop: {reason.reason}")
        )
    return None


# -- loops that run while tracing


def python_items(run: Run, value: Any, span: Span) -> list[Any] | Unknown:
    """The elements of a Python iterable, at most as many as the limit allows."""
    if isinstance(value, Unknown):
        return value
    if id(value) in run.tainted:
        return Unknown("the container is changed on a path that may not be taken")
    if isinstance(value, Buffer | Region | ir.Expr | int | float) or value is None:
        shown = f"`{value.name}`" if isinstance(value, Buffer) else show(value)
        what = f"{shown} cannot be iterated; loop over its indices with T.serial or T.Parallel"
        return run.report(UNSUPPORTED_PYTHON, span, what=what)
    if isinstance(value, SymbolicRange):
        lost = any_not_given(run, value.bounds)
        if lost is not None:
            return lost
        what = "the range is known only when the kernel runs, so only a `for` statement can run over it"
        return run.report(UNSUPPORTED_PYTHON, span, what=what)
    if isinstance(value, ClassValue) and value.is_enum:
        return value.members()
    if isinstance(value, Instance) and (parts := value.items()) is not None:
        return list(parts)
    if isinstance(value, Suspended):
        return all_items(run, value.function.name, lambda collect: run_generator(run, value, collect))
    items = []
    elements: Any = value
    try:
        for item in elements:
            items.append(item)
            if len(items) > run.limits.sequence:
                return TooLong(f"this runs over more than {run.limits.sequence} elements")
    except TypeError:
        if run.environment.static:
            return Unknown(f"iterating a {type(value).__name__} is not known to the compiler")
        return run.report(UNSUPPORTED_PYTHON, span, what=f"a {type(value).__name__} cannot be iterated")
    return items


def _python_loop(run: Run, node: ast.For, value: Any, span: Span) -> Flow | None:
    items = python_items(run, value, span)
    if isinstance(items, Unknown):
        if isinstance(items, TooLong) and run.signature.node_scope is not None:
            run.report(STEP_LIMIT, span, what=items.reason)
        return _unknown_loop(run, node, span, items if isinstance(items, TooLong) else None)
    run.loops.append(LoopEntry(False, len(run.regions)))
    try:
        for item in items:
            run.steps += 1
            assign(run, node.target, item, of_loop=True)
            flow = run.exec(node.body)
            if flow is None or flow.kind == "continue":
                continue
            return None if flow.kind == "break" else flow
    finally:
        run.loops.pop()
    return run.exec(node.orelse)


def while_statement(run: Run, node: ast.While, built: bool = False) -> Flow | None:
    """`while`: a loop of the kernel if its condition is traced, else it runs now. built: written as
    `with T.While(condition)`, which plain functions may hold.
    """
    condition = _condition(run, node)
    if isinstance(condition, ir.Expr) or (condition is True and _has_traced_exit(run, node)):
        return _traced_while(run, node, condition, built)
    run.loops.append(LoopEntry(False, len(run.regions)))
    try:
        while not isinstance(condition, Unknown) and condition:
            flow = run.exec(node.body)
            if flow is not None and flow.kind != "continue":
                return None if flow.kind == "break" else flow
            condition = _condition(run, node)
            if isinstance(condition, ir.Expr):
                return _traced_while(run, node, condition, built)
    finally:
        run.loops.pop()
    if isinstance(condition, Unknown):
        return _unknown_while(run, node)
    return run.exec(node.orelse)


def _condition(run: Run, node: ast.While) -> Any:
    value = fold(scalar(run, run.eval(node.test), run.span(node.test)))
    lost = not_given(run, value)
    value = value if lost is None else lost
    if isinstance(value, Unknown):
        return value
    return fold(as_bool(value)) if isinstance(value, ir.Expr) else truth(value)


def truth(value: Any) -> Any:
    """The Python truth of a plain value; Unknown for objects that the frontend only models."""
    if isinstance(value, Instance) and any(n in value.cls.names for n in ("__bool__", "__len__")):
        return Unknown("the truth of this object is not known")
    try:
        return bool(value)
    except (TypeError, ValueError):
        return Unknown("the truth of this value is not known")


def _has_traced_exit(run: Run, node: ast.While) -> bool:
    """`while True` inside a launch runs when the kernel does; before it, while tracing. So does, in a plain
    function, a loop over numbers of Python's: `while n > 0`.
    """
    if run.launch is None:
        return False
    return isinstance(node.test, ast.Constant) or not in_plain_function(run)


def _traced_while(run: Run, node: ast.While, condition: Any, built: bool) -> Flow | None:
    if not built:
        note_kernel_statement(run, run.span(node.test), "the `while` loop")
    loop = Loop("while", (), (), (), run.span(node.test))
    made = For(loop, [], X.const(True, "bool") if condition is True else condition)
    run.emit(made)
    context = Context((*run.context.loops, loop), run.context.guards, run.context.maybe)
    with run.nested(made.body, context), traced_region(run, "loop", run.span(node.test)) as region:
        # The condition was read before the loop; names in it that the body rebinds would not change it.
        for scope_name in _names_in(run, node.test):
            region.reads.setdefault(scope_name, run.span(node.test))
        run.loops.append(LoopEntry(True, len(run.regions)))
        run.exec(node.body)
        run.loops.pop()
    leave_loop(run, region)
    if condition is True and not _may_leave(run, node.body):
        what = "Infinite while loop detected: its condition is always true, and nothing in it leaves the loop"
        run.report(UNSUPPORTED_PYTHON, run.span(node.test), what=what)
    return None


def _may_leave(run: Run, body: list[ast.stmt]) -> bool:
    """Whether statements may end the loop around them: by a jump, or by a call of what is not the language's
    or jumps itself.
    """
    for node in (inner for statement in body for inner in ast.walk(statement)):
        if isinstance(node, ast.Break | ast.Return | ast.Raise):
            return True
        if isinstance(node, ast.Call):
            name = declared_name(resolve(node.func, run.scope))
            if name is None or name in _LEAVING:
                return True
    return False


def _names_in(run: Run, test: ast.expr) -> list[tuple[Any, str]]:
    found = []
    for node in ast.walk(test):
        if isinstance(node, ast.Name):
            scope, value = run.scope.find(node.id)
            if scope is not None and not isinstance(value, Buffer):
                found.append((scope, node.id))
    return found


def _unknown_while(run: Run, node: ast.While) -> Flow | None:
    run.complete = False
    lost = Unknown("the condition of the loop is not known")
    loop = Loop("while", (), (), (), run.span(node.test))
    made = For(loop, [], lost)
    run.emit(made)
    context = Context((*run.context.loops, loop), run.context.guards, True)
    with run.nested(made.body, context), traced_region(run, "branch", run.span(node.test)) as region:
        run.loops.append(LoopEntry(True, len(run.regions)))
        run.exec(node.body)
        run.loops.pop()
    for scope, name in region.bound:
        scope.names[name] = lost
    return None


def break_statement(run: Run, node: ast.Break) -> Flow | None:
    return _jump(run, node, "break")


def continue_statement(run: Run, node: ast.Continue) -> Flow | None:
    return _jump(run, node, "continue")


def _jump(run: Run, node: ast.stmt, kind: Any) -> Flow | None:
    if not run.loops:
        return Flow(kind)
    entry = run.loops[-1]
    if entry.traced:
        if kind == "break" and run.context.loops and run.context.loops[-1].kind in SHARED_LOOPS:
            what = f"`break` in T.{run.context.loops[-1].kind}, whose iterations run at the same time"
            run.report(UNSUPPORTED_PYTHON, run.span(node), what=what)
            return None
        run.emit(Jump(kind, run.span(node)))
        return Flow("jump")
    if len(run.regions) > entry.regions:
        what = f"`{kind}` under a condition of the kernel needs a loop of the kernel, which this is not"
        run.report(UNSUPPORTED_PYTHON, run.span(node), what=what)
        return None
    return Flow(kind)
