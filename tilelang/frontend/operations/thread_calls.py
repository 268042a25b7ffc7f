"""Thread code: numbers of threads and blocks, shuffles and votes, barriers, as calls of `ir.thread_ops`."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.problem import Severity
from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Bound
from tilelang.frontend.dtypes import is_float
from tilelang.frontend.operations.matrix_calls import MATRIX_CALLS
from tilelang.frontend.operations.thread_returns import thread_return
from tilelang.frontend.operations.wgmma_calls import WGMMA_CALLS
from tilelang.frontend.operations.wide_accesses import WIDE_ACCESSES
from tilelang.frontend.operators import as_bool, binary, cast, literal
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_unknown, dtype_of_expr, named_type, scalar
from tilelang.ir import thread_ops, tile_ops
from tilelang.ir.tile_program import Evaluate, Jump, Launch
from tilelang.ir.values import Unknown, as_int
from tilelang.language.threads import FULL_MASK

CLUSTER_DIMS = "tl.cluster_dims"  # attribute of the function: blocks of a cluster, as in "2, 1, 1"
_DIMENSIONS = 3
_WARPS_PER_GROUP = 4
_NAMED_BARRIERS = 16


def _launch(run: Run, call: Bound) -> Launch | Unknown:
    if run.launch is None:
        what = "stands outside `with T.Kernel(...)`"
        return run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)
    if run.launch.threads is None:
        return Unknown("the number of threads is not known")
    return run.launch


def _dim(run: Run, call: Bound, kind: str, count: int) -> int | Unknown:
    dim = call.value("dim", 0)
    if isinstance(dim, Unknown):
        return dim
    number = as_int(dim)
    if number is not None and 0 <= number < count:
        return number
    what = f"`dim` is 0 to {count - 1} for {kind}, not {dim}"
    return run.report(BAD_ARGUMENTS, call.span_of("dim"), callee=call.callee, what=what)


def _thread_binding(run: Run, call: Bound) -> Any:
    launch = _launch(run, call)
    dim = _dim(run, call, "threads", _DIMENSIONS)
    if isinstance(launch, Unknown) or isinstance(dim, Unknown):
        return launch if isinstance(launch, Unknown) else dim
    return _threads(launch)[dim]


def _thread_bindings(run: Run, call: Bound) -> Any:
    launch = _launch(run, call)
    return launch if isinstance(launch, Unknown) else tuple(_threads(launch))


def _threads(launch: Launch) -> list[Any]:
    return [*launch.thread_vars, 0, 0][:_DIMENSIONS]


def _thread_extent(run: Run, call: Bound) -> Any:
    extents, dim = _thread_extents(run, call), _dim(run, call, "threads", _DIMENSIONS)
    if isinstance(extents, Unknown) or isinstance(dim, Unknown):
        return extents if isinstance(extents, Unknown) else dim
    return extents[dim]


def _thread_extents(run: Run, call: Bound) -> Any:
    launch = _launch(run, call)
    return launch if isinstance(launch, Unknown) else [*(launch.threads or ()), 1, 1][:_DIMENSIONS]


def _block_binding(run: Run, call: Bound) -> Any:
    bindings = _block_bindings(run, call)
    if isinstance(bindings, Unknown):
        return bindings
    dim = _dim(run, call, "a grid of this kernel", len(bindings))
    return dim if isinstance(dim, Unknown) else bindings[dim]


def _block_bindings(run: Run, call: Bound) -> Any:
    launch = _launch(run, call)
    return launch if isinstance(launch, Unknown) else list(launch.block_vars)


def _block_extent(run: Run, call: Bound) -> Any:
    extents, dim = _block_extents(run, call), _dim(run, call, "the grid", _DIMENSIONS)
    if isinstance(extents, Unknown) or isinstance(dim, Unknown):
        return extents if isinstance(extents, Unknown) else dim
    return extents[dim]


def _block_extents(run: Run, call: Bound) -> Any:
    launch = _launch(run, call)
    return launch if isinstance(launch, Unknown) else [*launch.grid, 1, 1][:_DIMENSIONS]


def _cluster(run: Run) -> list[int]:
    """Blocks of a cluster along x, y and z."""
    given = run.attrs.get(CLUSTER_DIMS)
    return [int(n) for n in str(given).split(",")] if given else [1, 1, 1]


def _cluster_dims(run: Run, call: Bound) -> Any:
    launch = _launch(run, call)
    return launch if isinstance(launch, Unknown) else _cluster(run)


def _cluster_size(run: Run, call: Bound) -> Any:
    dims = _cluster_dims(run, call)
    return dims if isinstance(dims, Unknown) else math.prod(dims)


def _cluster_ids(run: Run, call: Bound) -> Any:
    launch = _launch(run, call)
    if isinstance(launch, Unknown):
        return launch
    return [
        var if n == 1 else X.floordiv(var, n)
        for var, n in zip(launch.block_vars, _cluster(run), strict=False)
    ]


def _cluster_extents(run: Run, call: Bound) -> Any:
    extents = _block_extents(run, call)
    if isinstance(extents, Unknown):
        return extents
    return [
        extent if n == 1 else binary(ast.FloorDiv, extent, n)
        for extent, n in zip(extents, _cluster(run), strict=True)
    ]


def _one_of(many: Callable[[Run, Bound], Any], kind: str) -> Callable[[Run, Bound], Any]:
    """The entry of `many` along `dim`."""

    def entry(run: Run, call: Bound) -> Any:
        found = many(run, call)
        if isinstance(found, Unknown):
            return found
        dim = _dim(run, call, kind, len(found))
        return dim if isinstance(dim, Unknown) else found[dim]

    return entry


# Numbers in the warp


def _linear_thread(launch: Launch) -> Any:
    number: Any = 0
    for var, extent in reversed(list(zip(launch.thread_vars, launch.threads or (), strict=True))):
        number = var if as_int(number) == 0 else number * extent + var
    return number


def _warp_size(run: Run, call: Bound) -> Any:
    given = call.value("warp_size")
    if given is not None:
        return _integer(run, call, "warp_size")
    return tile_ops.call(thread_ops.WARP_SIZE, [], dtype="int32")


def _integer(run: Run, call: Bound, name: str) -> Any:
    """An argument as an integer of the kernel."""
    value = scalar(run, call.value(name), call.span_of(name))
    if isinstance(value, Unknown):
        return value
    if isinstance(value, ir.Expr) and not is_float(dtype_of_expr(value)):
        return value
    if isinstance(value, int):
        return int(value)
    what = f"`{name}` must be an integer, not {_kind(value)}"
    return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)


def _kind(value: Any) -> str:
    return dtype_of_expr(value) if isinstance(value, ir.Expr) else named_type(value)


def _in_warp(make: Callable[[Any, Any], Any]) -> Callable[[Run, Bound], Any]:
    def number(run: Run, call: Bound) -> Any:
        launch = _launch(run, call)
        size = _warp_size(run, call)
        if isinstance(launch, Unknown) or isinstance(size, Unknown):
            return launch if isinstance(launch, Unknown) else size
        return make(_linear_thread(launch), size)

    return number


def _warp_group(run: Run, call: Bound) -> Any:
    launch, size = _launch(run, call), _warp_size(run, call)
    given = call.value("warps_per_group")
    warps = _WARPS_PER_GROUP if given is None else _integer(run, call, "warps_per_group")
    if isinstance(launch, Unknown):
        return launch
    lost = any_unknown([size, warps])
    return lost if lost is not None else X.floordiv(_linear_thread(launch), size * warps)


def _elect(run: Run, call: Bound) -> Any:
    launch = _launch(run, call)
    extent = as_int(call.value("thread_extent"))
    if isinstance(launch, Unknown):
        return launch
    if extent is None or extent < 0:
        what = "`thread_extent` must be a number of threads known at compile time, 0 for the whole block"
        return run.report(BAD_ARGUMENTS, call.span_of("thread_extent"), callee=call.callee, what=what)
    thread = _linear_thread(launch)
    return X.EQ(thread if extent == 0 else X.floormod(thread, extent), X.const(0, "int32"))


# Exchanges


def _mask(run: Run, call: Bound, name: str = "mask") -> Any:
    if call.value(name, FULL_MASK) == FULL_MASK:
        return X.const(FULL_MASK, "uint32")
    value = _integer(run, call, name)
    return value if isinstance(value, Unknown) else cast("uint32", value)


def _number(run: Run, call: Bound, name: str) -> Any:
    """An argument that may be any number, as an expression."""
    value = scalar(run, call.value(name), call.span_of(name))
    if isinstance(value, bool | int | float):
        return literal(value)
    if isinstance(value, ir.Expr | Unknown):
        return value
    what = f"`{name}` must be a number, not {named_type(value)}"
    return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)


def exchange(op: str, names: tuple[str, ...], dtype: str | None) -> Callable[[Run, Bound], Any]:
    """A collective over the arguments `names`; `dtype` None is that of the value."""

    def make(run: Run, call: Bound) -> Any:
        launch = _launch(run, call)
        if isinstance(launch, Unknown):
            return launch
        args = []
        for name in names:
            value = _argument(run, call, name)
            if isinstance(value, Unknown):
                run.complete = False
                return value
            args.append(value)
        if op.startswith("tl.warp_reduce_bit") and is_float(dtype_of_expr(args[0])):
            what = f"`value` must be an integer, not {dtype_of_expr(args[0])}"
            return run.report(BAD_ARGUMENTS, call.span_of("value"), callee=call.callee, what=what)
        return tile_ops.call(op, args, dtype=dtype or dtype_of_expr(args[0]), span=call.span)

    return make


def _argument(run: Run, call: Bound, name: str) -> Any:
    """An argument by what its parameter is called."""
    if name == "mask":
        return _mask(run, call)
    if name == "predicate":
        value = _number(run, call, name)
        return value if isinstance(value, Unknown) else as_bool(value)
    if name == "value":
        return _number(run, call, name)
    if name == "width" and call.value(name) is None:
        return X.const(32, "int32")
    value = _integer(run, call, name)
    return value if isinstance(value, Unknown) else cast("int32", value)


# Barriers


def _sync_threads(run: Run, call: Bound) -> None:
    given = [name for name in ("barrier_id", "arrive_count") if call.value(name) is not None]
    if not given:
        run.emit(Evaluate(tile_ops.call(tile_ops.SYNC, [], span=call.span), call.span))
        return
    if given == ["arrive_count"]:
        what = "`arrive_count` threads meet at a named barrier: give its `barrier_id` too"
        run.report(BAD_ARGUMENTS, call.span_of(given[0]), callee=call.callee, what=what)
        return
    count = _integer(run, call, "arrive_count") if len(given) == 2 else _whole_block(run)
    _named(run, call, thread_ops.NAMED_SYNC, "arrive_count", count)


def _whole_block(run: Run) -> Any:
    """How many threads the barrier instruction waits for without a count: those of all warps of the block."""
    launch = run.launch
    if launch is None or launch.threads is None:
        return run.unknown("the threads of the block are not known")
    return -(-math.prod(int(n) for n in launch.threads) // 32) * 32


def _named_arrive(run: Run, call: Bound) -> None:
    _named(run, call, thread_ops.NAMED_ARRIVE, "thread_count", _integer(run, call, "thread_count"))


def _named(run: Run, call: Bound, op: str, count_name: str, count: Any) -> None:
    barrier = _integer(run, call, "barrier_id")
    if isinstance(barrier, Unknown) or isinstance(count, Unknown):
        run.complete = False
        return
    number, threads = as_int(barrier), as_int(count)
    what = f"there are {_NAMED_BARRIERS} named barriers, 0 to {_NAMED_BARRIERS - 1}, and no {number}"
    at = call.span_of("barrier_id")
    if number is not None and number < 0:
        run.report(BAD_ARGUMENTS, at, callee=call.callee, what=what)
        return
    if number is not None and number >= _NAMED_BARRIERS:
        # ptxas reads the lower four bits of a number (tried for sm_90a), and published kernels rely on it.
        barrier = number % _NAMED_BARRIERS
        what += f": it is taken as {barrier} and meets whoever waits at that one"
        run.note(BAD_ARGUMENTS.at(at, severity=Severity.HINT, callee=call.callee, what=what))
    if threads is not None and (threads <= 0 or threads % 32):
        what = f"whole warps meet at a barrier: {count_name} must be a multiple of 32, not {threads}"
        run.report(BAD_ARGUMENTS, call.span_of(count_name), callee=call.callee, what=what)
        return
    args = [cast("int32", barrier), cast("int32", count)]
    run.emit(Evaluate(tile_ops.call(op, args, span=call.span), call.span))


def _sync_warp(run: Run, call: Bound) -> None:
    given = call.value("mask")
    mask = X.const(FULL_MASK, "uint32") if given is None else _mask(run, call)
    if isinstance(mask, Unknown):
        run.complete = False
        return
    run.emit(Evaluate(tile_ops.call(thread_ops.SYNC_WARP, [mask], span=call.span), call.span))


def _sync_grid(run: Run, call: Bound) -> None:
    run.emit(Evaluate(tile_ops.call(thread_ops.SYNC_GRID, [], span=call.span), call.span))


def _jump(kind: Literal["break", "continue"]) -> Callable[[Run, Bound], None]:
    return lambda run, call: _leave_iteration(run, call, kind)


def _leave_iteration(run: Run, call: Bound, kind: Literal["break", "continue"]) -> None:
    if not run.loops or not run.loops[-1].traced:
        what = "leaves a loop of the kernel, but stands in none"
        run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)
        return
    run.emit(Jump(kind, call.span))


def _statement(make: Callable[[Run, Bound], None]) -> Callable[[Run, Bound], Any]:
    """A call that is a statement of the kernel."""

    def emit(run: Run, call: Bound) -> Any:
        launch = _launch(run, call)
        if not isinstance(launch, Unknown):
            make(run, call)
        return None

    return emit


_SHUFFLE = ("value", "delta", "width", "mask")

THREAD_CALLS: Mapping[str, Callable[[Run, Bound], Any]] = {
    "get_thread_binding": _thread_binding,
    "get_thread_bindings": _thread_bindings,
    "get_thread_extent": _thread_extent,
    "get_thread_extents": _thread_extents,
    "get_block_binding": _block_binding,
    "get_block_bindings": _block_bindings,
    "get_block_extent": _block_extent,
    "get_block_extents": _block_extents,
    "get_cluster_dims": _cluster_dims,
    "get_cluster_size": _cluster_size,
    "get_cluster_ids": _cluster_ids,
    "get_cluster_id": _one_of(_cluster_ids, "a grid of this kernel"),
    "get_cluster_extents": _cluster_extents,
    "get_cluster_extent": _one_of(_cluster_extents, "the grid"),
    "get_lane_idx": _in_warp(lambda thread, size: X.floormod(thread, size)),
    "get_warp_idx": _in_warp(lambda thread, size: X.floordiv(thread, size)),
    "get_warp_idx_sync": _in_warp(lambda thread, size: X.floordiv(thread, size)),
    "get_warp_group_idx": _warp_group,
    "shuffle_elect": _elect,
    "shfl_sync": exchange("tl.shfl_sync", ("value", "srcLane", "width", "mask"), None),
    "shfl_xor": exchange("tl.shfl_xor", _SHUFFLE, None),
    "shfl_up": exchange("tl.shfl_up", _SHUFFLE, None),
    "shfl_down": exchange("tl.shfl_down", _SHUFFLE, None),
    "any_sync": exchange("tl.any_sync", ("predicate", "mask"), "int32"),
    "all_sync": exchange("tl.all_sync", ("predicate", "mask"), "int32"),
    "ballot_sync": exchange("tl.ballot_sync", ("predicate", "mask"), "uint64"),
    "ballot": exchange("tl.ballot", ("predicate",), "uint64"),
    "activemask": exchange("tl.activemask", (), "uint64"),
    "match_any_sync": exchange("tl.match_any_sync", ("value", "mask"), "uint32"),
    "match_all_sync": exchange("tl.match_all_sync", ("value", "mask"), "uint32"),
    "syncthreads_count": exchange("tl.syncthreads_count", ("predicate",), "int32"),
    "syncthreads_and": exchange("tl.syncthreads_and", ("predicate",), "int32"),
    "syncthreads_or": exchange("tl.syncthreads_or", ("predicate",), "int32"),
    **{op.removeprefix("tl."): exchange(op, ("value",), None) for op in thread_ops.WARP_REDUCTIONS},
    "loop_break": _statement(_jump("break")),
    "break_loop": _statement(_jump("break")),
    "continue_loop": _statement(_jump("continue")),
    "thread_return": _statement(thread_return),
    "sync_threads": _statement(_sync_threads),
    "named_barrier_arrive": _statement(_named_arrive),
    "sync_warp": _statement(_sync_warp),
    "sync_grid": _statement(_sync_grid),
    **WIDE_ACCESSES,
    **{name: _statement(make) for name, make in MATRIX_CALLS.items()},
    **WGMMA_CALLS,
}
