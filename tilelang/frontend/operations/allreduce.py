"""T.tvm_thread_allreduce: values of threads folded by shuffles, or through shared memory where a warp ends.

Only the frontend knows it: what it emits is ordinary thread code.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Argument, Bound
from tilelang.frontend.model import Late
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import dtype_of_expr, named_type, scalar
from tilelang.frontend.tensors import new_buffer
from tilelang.ir import tile_ops
from tilelang.ir.thread_ops import call_name
from tilelang.ir.tile_program import Access, Alloc, Bind, Evaluate, For, Launch, Loop, Store
from tilelang.ir.values import Region, Unknown, as_int

_WARP = 32
_FULL_MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class CommReducer:
    """What T.comm_reducer returns."""

    combine: Callable[[Any, Any], Any]


def allreduce_call(run: Run, op: str, call: Bound) -> Any:
    """T.comm_reducer, T.evaluate and the fold itself; `T.attr` is a context of statements (`with_attr`)."""
    if op == "comm_reducer":
        combine = call.value("combiner")
        return combine if isinstance(combine, Unknown) else CommReducer(combine)
    if op == "evaluate":
        value = call.value("value")
        foreign = call_name(value) in ("tirx.call_extern", "tirx.call_intrin")
        if foreign or tile_ops.is_ours(value):
            run.emit(Evaluate(value, call.span))
        return None
    if run.launch is not None and run.launch.threads is None:
        return run.unknown("the number of threads is not known")
    if run.launch is None:
        what = "stands outside `with T.Kernel(...)`"
        return run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)
    given: list[Argument] = call.items.get("freduce_args", [])
    if any(isinstance(a.value, Unknown) for a in given):
        return run.unknown("the arguments of the allreduce are not known")
    reducer = run.reducers[-1] if run.reducers else None
    if reducer is None:
        what = 'needs a reducer around it: with T.attr(T.comm_reducer(...), "reduce_scope", ...)'
        return run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)
    return _fold(run, call, given, reducer, run.launch)


def _fold(run: Run, call: Bound, given: list[Argument], reducer: CommReducer, launch: Launch) -> Any:
    if len(given) < 5 or as_int(given[0].value) != 1:
        what = (
            "takes (1, value, condition, result, thread numbers...); several values at once are not supported"
        )
        return run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)
    value = scalar(run, given[1].value, given[1].span)
    target = given[3].value
    target = target.region if isinstance(target, Late) else target
    if isinstance(value, Unknown):
        return value
    if not isinstance(target, Region) or not target.is_point:
        what = f"the result must be one element of a private array, as in out[0], not {named_type(target)}"
        return run.report(BAD_ARGUMENTS, given[3].span, callee=call.callee, what=what)
    axes = [_axis(launch, a.value) for a in given[4:]]
    if None in axes:
        bad = given[4 + axes.index(None)]
        what = "the axes must be numbers of threads from T.get_thread_binding"
        return run.report(BAD_ARGUMENTS, bad.span, callee=call.callee, what=what)
    dtype = str(target.buffer.dtype)
    value = value if dtype_of_expr(value) == dtype else X.Cast(dtype, value)
    folded = sorted(k for k in axes if k is not None)
    extents = [int(launch.threads[k]) for k in folded]  # type: ignore[index]
    count = math.prod(extents)
    low = folded == list(range(len(folded)))  # x first: their threads are neighbours
    if low and count <= _WARP and count & (count - 1) == 0:
        result = _by_shuffles(run, call, value, count, reducer)
    else:
        result = _by_memory(run, call, value, folded, reducer, launch)
    if isinstance(result, Unknown):
        run.complete = False
        return result
    at = tuple(X.const(s, "int32") if isinstance(s, int) else s for s in target.starts)
    run.accesses.append(Access(target.buffer, target.indices or (), "write", call.span, run.context))
    run.emit(Store(target.buffer, at, result, call.span, run.context))
    return None


def _axis(launch: Launch, value: Any) -> int | None:
    for k, var in enumerate(launch.thread_vars):
        if isinstance(value, ir.Expr) and var.same_as(value):
            return k
    return None


def _bound(run: Run, call: Bound, value: Any) -> Any:
    var = run.fresh("folded", dtype_of_expr(value))
    run.emit(Bind(var, value, call.span))
    return var


def _by_shuffles(run: Run, call: Bound, value: Any, count: int, reducer: CommReducer) -> Any:
    """A butterfly: after it every thread of the group has the result."""
    value = _bound(run, call, value)
    mask = 1
    while mask < count:
        args = [value, X.const(mask, "int32"), X.const(_WARP, "int32"), X.const(_FULL_MASK, "uint32")]
        other = tile_ops.call("tl.shfl_xor", args, dtype=dtype_of_expr(value), span=call.span)
        folded = reducer.combine(value, _bound(run, call, other))
        if isinstance(folded, Unknown):
            return folded
        value = _bound(run, call, folded)
        mask *= 2
    return value


def _by_memory(
    run: Run, call: Bound, value: Any, folded: list[int], reducer: CommReducer, launch: Launch
) -> Any:
    """Every thread writes its value and reads those of its group."""
    dims = [int(n) for n in launch.threads or ()]
    saved, run.binding_name = run.binding_name, ("allreduce", call.span)
    space = new_buffer(run, "shared", tuple(reversed(dims)), dtype_of_expr(value), call.span)
    total = new_buffer(run, "local.var", (1,), dtype_of_expr(value), call.span, init=0)
    run.binding_name = saved
    run.emit(Alloc(space, call.span))
    run.emit(Alloc(total, call.span))
    mine = list(reversed(launch.thread_vars))
    zero = X.const(0, "int32")
    sync = tile_ops.call(tile_ops.SYNC, [], span=call.span)
    run.emit(Evaluate(sync, call.span))
    run.emit(Store(space, tuple(mine), value, call.span, run.context))
    run.emit(Evaluate(sync, call.span))
    steps = {k: run.fresh(f"t{k}") for k in folded}

    def element(at: dict[int, Any]) -> Any:
        places = [at.get(k, launch.thread_vars[k]) for k in reversed(range(len(dims)))]
        return X.BufferLoad(space.var, places)

    first = element(dict.fromkeys(folded, zero))
    run.emit(Store(total, (zero,), first, call.span, run.context))
    is_first = None
    for k in folded:
        condition = X.EQ(steps[k], zero)
        is_first = condition if is_first is None else X.And(is_first, condition)
    old = X.BufferLoad(total.var, [zero])
    combined = reducer.combine(old, element(dict(steps)))
    if isinstance(combined, Unknown):
        return combined
    new = X.if_then_else(is_first, old, combined)
    body: list[Any] = [Store(total, (zero,), new, call.span, run.context)]
    for k in folded:
        loop = Loop("serial", (steps[k],), (0,), (dims[k],), call.span)
        body = [For(loop, body)]
    for node in body:
        run.emit(node)
    return X.BufferLoad(total.var, [zero])
