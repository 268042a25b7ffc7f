"""Calls of the language: arguments bound to the declaration, then handled by what the name is."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS, UNSUPPORTED_LANGUAGE_NAME
from tilelang.frontend.arguments import Argument, Bound, bind_arguments, signature_of
from tilelang.frontend.deprecated import note_renamed, without_removed
from tilelang.frontend.model import Frame
from tilelang.frontend.operations.allocations import allocate
from tilelang.frontend.operations.allreduce import allreduce_call
from tilelang.frontend.operations.atomics import atomic
from tilelang.frontend.operations.barrier_calls import BARRIER_CALLS
from tilelang.frontend.operations.builder_calls import BUILDER_CALLS
from tilelang.frontend.operations.debug_calls import debug_call
from tilelang.frontend.operations.extern_calls import EXTERN_CALLS
from tilelang.frontend.operations.gmma_descriptors import gmma_descriptor
from tilelang.frontend.operations.hints import HINTS
from tilelang.frontend.operations.intrinsics import choose, condition_guard, convert_value, evaluate
from tilelang.frontend.operations.layout_calls import layout_call
from tilelang.frontend.operations.named_intrinsics import NAMED_CALLS
from tilelang.frontend.operations.packed_pairs import is_packed_pair, packed_pair
from tilelang.frontend.operations.reducers import reducer_call, refuse_conditions
from tilelang.frontend.operations.thread_calls import THREAD_CALLS
from tilelang.frontend.operations.tile_ops import record_operation
from tilelang.frontend.operations.vectors import is_vector_call, vector_call
from tilelang.frontend.python.decorators import decorate_value
from tilelang.frontend.python.launch import source_kernel
from tilelang.frontend.run import Run
from tilelang.frontend.same_operands import note_same_arguments, note_same_branches, note_same_places
from tilelang.frontend.scalars import named_type, scalar
from tilelang.frontend.star_import import hides_builtin, not_pythons
from tilelang.frontend.tensors import const, dynamic, empty, reshape, strided_tensor, tensor, view
from tilelang.ir import tile_ops
from tilelang.ir.tile_program import Evaluate
from tilelang.ir.values import Unknown
from tilelang.language.names import LANGUAGE, Entry

_TENSORS: dict[str, Callable[[Run, Bound], Any]] = {
    "Tensor": tensor,
    "StridedTensor": strided_tensor,
    "dynamic": dynamic,
    "const": const,
    "empty": empty,
    "reshape": reshape,
    "view": view,
}


def call_language(
    run: Run, node: ast.Call, name: str, function: Any, args: list[Argument], kwargs: dict[str, Argument]
) -> Any:
    """`T.<name>(...)`."""
    before = len(run.problems)
    value = _call(run, node, name, function, args, kwargs)
    if len(run.problems) > before and hides_builtin(node.func):
        named = ast.unparse(node.func)
        run.problems[before:] = [
            replace(p, message=f"{p.message}; {not_pythons(named, name)}") for p in run.problems[before:]
        ]
    return value


def _call(
    run: Run, node: ast.Call, name: str, function: Any, args: list[Argument], kwargs: dict[str, Argument]
) -> Any:
    entry = LANGUAGE[name]
    span, callee_span = run.span(node), run.span(node.func)
    if entry.kind == "meta":
        return decorate_value(run, function, args)
    if isinstance(node.func, ast.Name):
        note_renamed(run, name, callee_span, "")
    kwargs = without_removed(run, node, name, kwargs)
    if name in ("any_of", "all_of") and len(args) > 1:
        return refuse_conditions(run, name, f"not {len(args)} values", args[1].span)
    meant = "threads" if entry.op == "Kernel" else None  # a launch has a body
    bound = bind_arguments(run, signature_of(function), f"T.{name}", args, kwargs, span, callee_span, meant)
    if isinstance(bound, Unknown):
        return bound
    if not _supported(run, entry, function, bound) and entry.kind in ("expr", "thread"):
        return Unknown(f"T.{name} is used in a way that is not supported")
    match entry.kind:
        case "tile_op" if entry.op == "atomic":
            return atomic(run, entry.fixed["kind"], entry.fixed["lanes"], bound)
        case "tile_op":
            if entry.op == "copy" and len(node.args) == 2:
                note_same_places(run, node.args[0], node.args[1], run.span(node.args[1]))
            record_operation(run, entry.op, entry.fixed, bound, entry.unsupported)
            return None
        case "frame":
            return _frame(entry, bound)
        case "allreduce":
            return allreduce_call(run, entry.op, bound)
        case "debug":
            return debug_call(run, entry.op, bound)
        case "reducer":
            return reducer_call(run, entry.op, bound)
        case "layout" if entry.op == "compute_gmma_descriptor":
            return gmma_descriptor(run, bound)
        case "layout":
            return layout_call(run, entry.op, bound)
        case "alloc":
            return allocate(run, entry.op, bound)
        case "tensor":
            return _TENSORS[entry.op](run, bound)
        case "expr" if is_packed_pair(entry.op):
            return packed_pair(run, entry.op, bound)
        case "expr" if is_vector_call(entry.op):
            return vector_call(run, entry.op, bound)
        case "expr":
            value = evaluate(run, entry.op, bound)
            note_same_arguments(run, node, entry.op, value)
            return value
        case "builder":
            return BUILDER_CALLS[entry.op](run, bound)
        case "dtype":
            value = args[0] if args else Argument(Unknown("a dtype called without a value"), span)
            return convert_value(run, value.value, entry.op, value.span, f"T.{name}")
        case "annotation":
            return _ANNOTATIONS[entry.op](run, bound)
        case "thread":
            return THREAD_CALLS[entry.op](run, bound)
        case "barrier":
            return BARRIER_CALLS[entry.op](run, bound)
        case "launch":
            return source_kernel(run, _frame(entry, bound))
        case "extern":
            return (NAMED_CALLS.get(entry.op) or EXTERN_CALLS[entry.op])(run, bound)
    return Unknown(f"T.{name} is not known to the compiler")


def _supported(run: Run, entry: Entry, function: Any, bound: Bound) -> bool:
    """Parameters that are declared for compatibility only: anything but the default leaves the kernel
    unchecked.
    """
    fine = True
    for name in entry.unsupported:
        argument = bound.arguments.get(name)
        if argument is None or argument.value == signature_of(function).parameters[name].default:
            continue
        owner = f"{bound.callee}(...)"
        run.report(UNSUPPORTED_LANGUAGE_NAME, argument.span, module=owner, name=name, instead="")
        run.complete = False
        fine = False
    return fine


def _frame(entry: Entry, bound: Bound) -> Frame:
    values: dict[str, Any] = {n: a.value for n, a in bound.arguments.items()}
    spans = {n: a.span for n, a in bound.arguments.items()}
    for star, items in bound.items.items():
        values[star] = tuple(a.value for a in items)
        spans |= {f"{star}.{k}": a.span for k, a in enumerate(items)}
    return Frame(entry.op, values, spans, bound.span)


def guarded_choice(run: Run, node: ast.Call) -> Any:
    """`T.if_then_else(cond, t, f)`: what `t` and `f` read is read only where `cond` says so."""
    names = ("cond", "t", "f")
    nodes: dict[str, ast.expr] = dict(zip(names, node.args, strict=False))
    nodes |= {k.arg: k.value for k in node.keywords if k.arg is not None}
    if set(nodes) != set(names) or len(node.args) + len(node.keywords) != len(names):
        run.report(
            BAD_ARGUMENTS,
            run.span(node),
            callee="T.if_then_else",
            what="takes a condition and two values: (cond, t, f)",
        )
        return Unknown("the arguments of T.if_then_else do not fit")
    condition = scalar(run, run.eval(nodes["cond"]), run.span(nodes["cond"]))
    values = []
    for negated, name in ((False, "t"), (True, "f")):
        at = run.span(nodes[name])
        with condition_guard(run, condition, negated, run.span(nodes["cond"])):
            value = scalar(run, run.eval(nodes[name]), at)
        if not isinstance(value, ir.Expr | bool | int | float | Unknown):
            what = f"`{name}` must be a number, not {named_type(value)}"
            value = run.report(BAD_ARGUMENTS, at, callee="T.if_then_else", what=what)
        elif isinstance(value, ir.Expr) and not isinstance(value.ty, ir.PrimType):
            what = (
                f"`{name}` must be a number, not an address: write `if` around the calls that take one each"
            )
            value = run.report(BAD_ARGUMENTS, at, callee="T.if_then_else", what=what)
        values.append(value)
    note_same_branches(run, condition, nodes["t"], nodes["f"], values[0])
    return choose(run, condition, *values)


def _use_swizzle(run: Run, bound: Bound) -> None:
    """`tl.block_swizzle` of the function: the order and the panel size, such as `row:10`."""
    panel, order, enable = bound.value("panel_size"), bound.value("order", "row"), bound.value("enable", True)
    if any(isinstance(v, Unknown) for v in (panel, order, enable)):
        run.complete = False
        return
    if not enable:
        return
    if order not in ("row", "column", "mlx"):
        what = f'order is "row", "column" or "mlx", not {order!r}'
        run.report(BAD_ARGUMENTS, bound.span_of("order"), callee=bound.callee, what=what)
    elif not isinstance(panel, int) or panel <= 0:
        what = "panel_size must be a positive number known at compile time"
        run.report(BAD_ARGUMENTS, bound.span_of("panel_size"), callee=bound.callee, what=what)
    else:
        # "mlx" is Metal's variant of panels of rows; which blocks are neighbours changes no result.
        run.attrs["tl.block_swizzle"] = f"{'row' if order == 'mlx' else order}:{panel}"


def _wait_wgmma(run: Run, bound: Bound) -> None:
    """Only T.wgmma_gemm is waited for: a T.gemm has its products when it ends."""
    count = bound.value("id") if "id" in bound.arguments else bound.value("num_mma")
    if isinstance(count, Unknown):
        run.complete = False
    elif not isinstance(count, int) or count < 0:
        what = "takes the number of groups that may be on their way, 0 or more"
        run.report(BAD_ARGUMENTS, bound.span, callee=bound.callee, what=what)
    elif run.launch is not None:
        call = tile_ops.call(tile_ops.WGMMA_WAIT, [X.const(count, "int32")], span=bound.span)
        run.emit(Evaluate(call, bound.span))


_ANNOTATIONS: dict[str, Callable[[Run, Bound], None]] = {
    "use_swizzle": _use_swizzle,
    "wait_wgmma": _wait_wgmma,
    "warpgroup_wait": _wait_wgmma,
    **HINTS,
}
