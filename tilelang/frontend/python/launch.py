"""`with T.Kernel(...) as (bx, by):` : the grid, the threads and the body of a launch."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS, UNSUPPORTED_PYTHON
from tilelang.diagnostics.span import Span
from tilelang.frontend.constants import unknown_number
from tilelang.frontend.local_names import assigned_names
from tilelang.frontend.model import Flow, Frame
from tilelang.frontend.names import bind_name
from tilelang.frontend.operations.allreduce import CommReducer
from tilelang.frontend.operations.extern_calls import address, import_source
from tilelang.frontend.operations.launches import SOURCE_ENTRY, launched, may_launch
from tilelang.frontend.operators import disjunction
from tilelang.frontend.python.branch_builders import branch_builder, is_branch_builder, one_by_one
from tilelang.frontend.python.discovery import resolve
from tilelang.frontend.python.loops import frame_loop
from tilelang.frontend.python.targets import assign
from tilelang.frontend.python.thread_launches import with_thread_launch
from tilelang.frontend.regions import join, take_changes, traced_region
from tilelang.frontend.run import Run, StopInterpreting
from tilelang.frontend.scalars import any_unknown, named_type
from tilelang.frontend.tensors import read_size
from tilelang.ir import tile_ops
from tilelang.ir.build import UNNAMED_THREADS
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Context, Evaluate, Guard, If, Launch
from tilelang.ir.values import Region, Unknown, as_int, show
from tilelang.language.launch import ClusterKernel, Kernel
from tilelang.parsing import parse

DEFAULT_THREADS = 128
GROUP_THREADS = 128  # of a warp group, as wgmma wants them
EVERY_GROUP = -1  # as the number of a warp group
_MAX_DIMENSIONS = 3


def with_statement(run: Run, node: ast.With) -> Flow | None:
    """`with`: a launch, or a context manager that the compiler does not know (its body is interpreted)."""
    if is_branch_builder(run, node.items[0]):
        return branch_builder(run, node)
    if any(is_branch_builder(run, item) for item in node.items):
        node = one_by_one(node)
    return _with_items(run, node, list(node.items))


def _with_items(run: Run, node: ast.With, items: list[ast.withitem]) -> Flow | None:
    if not items:
        return run.exec(node.body)
    item, rest = items[0], items[1:]
    value = run.eval(item.context_expr)
    if isinstance(value, Frame) and value.name == "Kernel":
        return _launch(run, node, item, rest, value)
    if isinstance(value, Frame) and value.name == "attr":
        return _with_attr(run, node, rest, value)
    if isinstance(value, Frame) and value.name == "ws":
        return _warp_groups(run, node, rest, value)
    if isinstance(value, Frame) and value.name == "launch_thread":
        return with_thread_launch(run, item, value, lambda: _with_items(run, node, rest))
    if isinstance(value, Frame) and value.name in ("sblock", "ws_op"):
        return _with_items(run, node, rest)
    if isinstance(value, Frame):
        return frame_loop(run, _as_for(node, item, rest), value)
    if isinstance(value, Unknown) and run.launch is None and _is_launch(run, item.context_expr):
        run.complete = False  # a launch with arguments that are not known: its body says nothing
        for name in assigned_names(run.source, [node]):
            run.scope.names[name] = value
        run.launched = True
        return None
    if item.optional_vars is not None:
        assign(run, item.optional_vars, Unknown("what this `with` gives is not known to the compiler"))
    return _with_items(run, node, rest)


def _as_for(node: ast.With, item: ast.withitem, rest: list[ast.withitem]) -> ast.For:
    """`with T.serial(n) as i:` as `for i in T.serial(n):`, which it means."""
    target = item.optional_vars or ast.copy_location(ast.Name("_", ast.Store()), item.context_expr)
    body: list[ast.stmt] = [ast.copy_location(ast.With(rest, node.body), node)] if rest else node.body
    return ast.copy_location(ast.For(target, item.context_expr, body, []), node)


def _with_attr(run: Run, node: ast.With, rest: list[ast.withitem], frame: Frame) -> Flow | None:
    """`with T.attr(T.comm_reducer(...), "reduce_scope", handle)`: the reducer of an allreduce inside."""
    reducer = frame.arguments.get("node")
    if not isinstance(reducer, CommReducer):
        return _with_items(run, node, rest)
    run.reducers.append(reducer)
    try:
        return _with_items(run, node, rest)
    finally:
        run.reducers.pop()


def _is_launch(run: Run, node: ast.expr) -> bool:
    """Whether an expression is a launch, whichever way its conditions go."""
    if isinstance(node, ast.IfExp):
        return _is_launch(run, node.body) and _is_launch(run, node.orelse)
    called = resolve(node.func, run.scope) if isinstance(node, ast.Call) else None
    return called is Kernel or called is ClusterKernel


def _launch(
    run: Run, node: ast.With, item: ast.withitem, rest: list[ast.withitem], frame: Frame
) -> Flow | None:
    if not may_launch(run, frame):
        return None
    import_source(run, frame.arguments.get("prelude"), frame.spans.get("prelude", frame.span), "T.Kernel")
    _cluster(run, frame)
    grid = _grid(run, frame)
    threads = _threads(run, frame)
    names = _names(item.optional_vars, len(grid))
    block_vars = tuple(run.fresh(n, "int32") for n in names)
    thread_vars = tuple(run.fresh(f"t{'xyz'[k]}", "int32") for k in range(len(threads or ())))
    launch = Launch(grid, threads, block_vars, thread_vars, [], frame.span)

    def inside() -> Flow | None:
        _bind_blocks(run, item.optional_vars, block_vars)
        return _with_items(run, node, rest)

    return launched(run, launch, inside)


def source_kernel(run: Run, frame: Frame) -> None:
    """`T.CUDASourceCodeKernel(...)`: a launch whose body is a text of CUDA C++."""
    if run.signature.stop_at_launch:
        raise StopInterpreting
    callee = f"T.{frame.name}"
    if run.launched:
        what = f"{callee} beside another launch: put it into a function of its own"
        run.report(UNSUPPORTED_PYTHON, frame.span, what=what)
        return
    import_source(run, frame.arguments.get("prelude"), frame.spans.get("prelude", frame.span), callee)
    _cluster(run, frame)
    grid, threads = _grid(run, frame), _threads(run, frame)
    text = _source_text(run, frame)
    entry = frame.arguments.get("entry_name", "main_kernel")
    thread_vars = tuple(run.fresh(f"t{'xyz'[k]}", "int32") for k in range(len(threads or ())))
    block_vars = tuple(run.fresh(f"b{'xyz'[k]}", "int32") for k in range(len(grid)))
    launch = Launch(grid, threads, block_vars, thread_vars, [], frame.span)
    run.emit(launch)
    run.launched = True
    run.attrs[SOURCE_ENTRY] = str(entry)
    tensors = [
        run.signature.parameters[n].buffer for n in run.signature.names if n in run.signature.parameters
    ]
    tensors += [b for b in run.buffers if b.role == "output" and b not in tensors]
    run.launch = launch
    with run.nested(launch.body):
        passed = [address(run, Region(b, None, frame.span)) for b in tensors if b is not None]
        if isinstance(text, Unknown) or isinstance(entry, Unknown) or any_unknown(passed) is not None:
            run.complete = False
        else:
            args = [ir.StringImm(text), *passed]
            run.emit(Evaluate(tile_ops.call(tile_ops.SOURCE_KERNEL, args, span=frame.span), frame.span))
    run.launch = None


def _source_text(run: Run, frame: Frame) -> str | Unknown:
    """The text of a hand-written kernel, read from its file where a path is given."""
    given = frame.arguments["source_code_or_path"]
    span = frame.spans.get("source_code_or_path", frame.span)
    if isinstance(given, Unknown):
        return given
    if not isinstance(given, str | os.PathLike):
        what = f"`source_code_or_path` must be a text or a path, not {named_type(given)}"
        return run.report(BAD_ARGUMENTS, span, callee=f"T.{frame.name}", what=what)
    text = os.fspath(given)
    if "\n" in text or "{" in text:
        found = text
    else:
        try:
            found = Path(text).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            what = f"`source_code_or_path` is no text of a kernel, and no file that can be read: {error}"
            return run.report(BAD_ARGUMENTS, span, callee=f"T.{frame.name}", what=what)
    if "__global__" not in found:
        what = "the source has no `__global__` function to launch"
        return run.report(BAD_ARGUMENTS, span, callee=f"T.{frame.name}", what=what)
    return found


def _warp_groups(run: Run, node: ast.With, rest: list[ast.withitem], frame: Frame) -> Flow | None:
    """`with T.ws(0, 1):` the body, as a branch for the threads of these groups."""
    ids = list(frame.arguments.get("warp_group_idx") or ())
    if run.launch is None or run.launch.threads is None:
        if run.launch is None:
            what = "stands outside `with T.Kernel(...)`"
            run.report(BAD_ARGUMENTS, frame.span, callee="T.ws", what=what)
        run.complete = False
        return _with_items(run, node, rest)
    thread: Any = 0
    for var, extent in reversed(list(zip(run.launch.thread_vars, run.launch.threads, strict=True))):
        thread = var if as_int(thread) == 0 else thread * extent + var
    condition: Any = False
    for k, given in enumerate(ids):
        number = read_size(run, given, frame.spans.get(f"warp_group_idx.{k}", frame.span), "a warp group")
        if isinstance(number, Unknown):
            run.complete = False
            return _with_items(run, node, rest)
        if as_int(number) == EVERY_GROUP:
            return _with_items(run, node, rest)
        first = number * GROUP_THREADS
        inside = X.And(X.GE(thread, first), X.LT(thread, first + GROUP_THREADS))
        condition = disjunction(condition, inside)
    if condition is False:
        run.report(BAD_ARGUMENTS, frame.span, callee="T.ws", what="takes the numbers of warp groups")
        return None
    made = If(condition, [], [], frame.span)
    run.emit(made)
    guard = Guard(condition, False, frame.span)
    context = Context(run.context.loops, (*run.context.guards, guard), run.context.maybe)
    with traced_region(run, "branch", frame.span) as region:
        with run.nested(made.body, context):
            flow = _with_items(run, node, rest)
        changes = take_changes(run, region)
    join(run, region, changes, {}, undecided=False)
    return flow if flow is not None and flow.kind == "raise" else None


def _cluster(run: Run, frame: Frame) -> None:
    """Note the blocks of a cluster, `tl.cluster_dims` of the function."""
    given = frame.arguments.get("cluster_dims")
    if given is None:
        return
    each = list(given) if isinstance(given, tuple | list) else [given]
    if unknown_number(run, each) is not None:
        run.complete = False
        return
    dims = [as_int(d) for d in each]
    if not 1 <= len(dims) <= _MAX_DIMENSIONS or any(d is None or d <= 0 for d in dims):
        what = "`cluster_dims` is one to three positive numbers known at compile time"
        span = frame.spans.get("cluster_dims", frame.span)
        run.report(BAD_ARGUMENTS, span, callee="T.Kernel", what=what)
        return
    sizes = [*dims, 1, 1][:_MAX_DIMENSIONS]
    if sizes != [1, 1, 1]:
        run.attrs["tl.cluster_dims"] = ", ".join(map(str, sizes))


def _grid(run: Run, frame: Frame) -> tuple[Any, ...]:
    blocks: list[Any] = list(frame.arguments["blocks"])
    if len(blocks) == 1 and isinstance(blocks[0], tuple | list):
        blocks = list(blocks[0])
    if not 1 <= len(blocks) <= _MAX_DIMENSIONS:
        what = f"a grid has one to three extents, not {len(blocks)}"
        run.report(BAD_ARGUMENTS, frame.span, callee="T.Kernel", what=what)
        blocks = [*blocks, 1][:_MAX_DIMENSIONS]
    grid = []
    for k, block in enumerate(blocks):
        span = frame.spans.get(f"blocks.{k}", frame.span)
        extent = read_size(run, block, span, "a grid extent")
        number = as_int(extent)
        if number is not None and (number < 0 or (number == 0 and not _depends_on_names(run, span))):
            what = f"extent {k} of the grid is {number}; every extent must be positive"
            extent = run.report(BAD_ARGUMENTS, span, callee="T.Kernel", what=what)
        grid.append(extent)
    return tuple(grid)


def _depends_on_names(run: Run, span: Span) -> bool:
    """Whether the source at `span` has names of values in it: a tensor without elements makes such an extent
    0, and launching no block is right then.
    """
    text = run.source.slice(span) if span.line != span.end_line else run.source.lines[span.line - 1]
    if span.line == span.end_line:
        text = text[span.column - 1 : span.end_column - 1]
    try:
        tree = parse(f"({text})", mode="eval")
    except SyntaxError:  # the ends of a multi-line span hold other code too
        return True
    owners = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    return any(isinstance(n, ast.Name) and id(n) not in owners for n in ast.walk(tree))


def _threads(run: Run, frame: Frame) -> tuple[int, ...] | None:
    given = frame.arguments.get("threads")
    if given is None:
        if not run.launched:
            run.attrs[UNNAMED_THREADS] = True
        return (DEFAULT_THREADS,)
    run.attrs.pop(UNNAMED_THREADS, None)
    span = frame.spans.get("threads", frame.span)
    entries = list(given) if isinstance(given, tuple | list) else [given]
    numbers = []
    for entry in entries:
        extent = read_size(run, entry, span, "a number of threads")
        number = as_int(extent)
        if isinstance(extent, Unknown):
            return None
        if number is None and _open_sizes(run, extent):
            run.unknown("a number of threads that each call gives")
            return None
        if number is None or number <= 0:
            what = (
                f"the number of threads must be a positive number known at compile time, not {show(extent)}"
            )
            run.report(BAD_ARGUMENTS, span, callee="T.Kernel", what=what)
            return None
        numbers.append(number)
    if not 1 <= len(numbers) <= _MAX_DIMENSIONS:
        run.report(
            BAD_ARGUMENTS,
            span,
            callee="T.Kernel",
            what=f"threads has one to three extents, not {len(numbers)}",
        )
        return None
    return tuple(numbers)


def _open_sizes(run: Run, extent: Any) -> bool:
    """Whether an extent is made of T.const alone, which has a number in every call."""
    consts = {s.var for s in run.symbols if s.kind == "const"}
    return isinstance(extent, ir.Expr) and all(v in consts for v in free_vars(extent))


def _names(target: ast.expr | None, count: int) -> list[str]:
    """The author's names for the block variables; bx, by, bz where there are none."""
    targets = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    names = []
    for k in range(count):
        node = targets[k] if k < len(targets) else None
        given = node.id if isinstance(node, ast.Name) and node.id != "_" else None
        names.append(given if given and given not in names else f"b{'xyz'[k]}")
    return names


def _bind_blocks(run: Run, target: ast.expr | None, block_vars: tuple[ir.Var, ...]) -> None:
    if target is None:
        return
    if isinstance(target, ast.Name):
        value: Any = block_vars[0] if len(block_vars) == 1 else tuple(block_vars)
        bind_name(run, target.id, value, run.span(target))
        return
    if isinstance(target, ast.Tuple | ast.List) and len(target.elts) > len(block_vars) == _MAX_DIMENSIONS:
        for element in target.elts:  # too many extents, which was said of the grid
            assign(run, element, Unknown("a grid has no such dimension"))
        return
    if isinstance(target, ast.Tuple | ast.List) and len(target.elts) != len(block_vars):
        span: Span = run.span(target)
        dimensions = "dimension" if len(block_vars) == 1 else "dimensions"
        what = f"the grid has {len(block_vars)} {dimensions}, but {len(target.elts)} names are bound to it"
        run.report(BAD_ARGUMENTS, span, callee="T.Kernel", what=what)
        for element in target.elts:
            assign(run, element, Unknown(what))
        return
    assign(run, target, tuple(block_vars))
