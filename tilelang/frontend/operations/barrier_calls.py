"""Barriers in shared memory, groups of asynchronous copies, and registers of warp groups, as `tl.*` calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Bound
from tilelang.frontend.constants import unknown_number
from tilelang.frontend.operations.barriers import barrier_address, place
from tilelang.frontend.operations.bulk_calls import BULK_CALLS
from tilelang.frontend.operations.cluster_copies import copy_cluster, mask_of
from tilelang.frontend.operations.tile_ops import record_operation
from tilelang.frontend.operators import cast
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_unknown, named_type, scalar
from tilelang.frontend.tensors import new_buffer
from tilelang.ir import tile_ops
from tilelang.ir.tile_program import Alloc, Evaluate, If
from tilelang.ir.values import Unknown, as_int


def _emit(run: Run, name: str, args: list[Any], call: Bound) -> None:
    run.emit(Evaluate(tile_ops.call(f"tl.{name}", args, span=call.span), call.span))


def _in_launch(run: Run, call: Bound) -> bool:
    if run.launch is None:
        run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what="stands outside `with T.Kernel(...)`")
    return run.launch is not None and run.launch.threads is not None


def _alloc_barrier(run: Run, call: Bound) -> Any:
    """Memory, the counts written by one thread, and a barrier of the block after which all may use them."""
    given = call.value("arrive_count")
    each = list(given) if isinstance(given, list | tuple) else [given]
    lost = unknown_number(run, each)
    if lost is not None:
        run.complete = False
        return lost
    counts = [as_int(c) for c in each]
    if not counts or any(c is None or c <= 0 for c in counts):
        what = "`arrive_count` is a positive number known at compile time, or a list of such numbers"
        return run.report(BAD_ARGUMENTS, call.span_of("arrive_count"), callee=call.callee, what=what)
    if not _in_launch(run, call):
        return Unknown("a barrier outside a launch")
    assert run.launch is not None
    buffer = new_buffer(run, "shared", (len(counts),), "uint64", call.span, fallback="barrier")
    run.emit(Alloc(buffer, call.span))
    first: Any = X.const(True, "bool")
    for k, var in enumerate(run.launch.thread_vars):
        here = X.EQ(var, X.const(0, "int32"))
        first = here if k == 0 else X.And(first, here)
    begin: list[Any] = []
    for k, count in enumerate(counts):
        args = [place(buffer, [k]), X.const(count, "int32")]
        begin.append(Evaluate(tile_ops.call("tl.mbarrier_init", args, span=call.span), call.span))
    run.emit(If(first, begin, [], call.span))
    _emit(run, "fence_barrier_init", [], call)
    run.emit(Evaluate(tile_ops.call(tile_ops.SYNC, [], span=call.span), call.span))
    return buffer


def _numbered_barriers(run: Run, call: Bound) -> None:
    """Memory for barriers that are named by numbers; the author gives them their counts."""
    count = as_int(call.value("barrier_count"))
    if isinstance(call.value("barrier_count"), Unknown):
        run.complete = False
    elif count is None or count <= 0:
        what = "`barrier_count` is a positive number known at compile time"
        run.report(BAD_ARGUMENTS, call.span_of("barrier_count"), callee=call.callee, what=what)
    elif _in_launch(run, call):
        made = new_buffer(run, "shared", (count,), "uint64", call.span, fallback="barriers")
        run.emit(Alloc(made, call.span))
        run.numbered_barriers = made


def _on_numbered(op: str, *numbers: str) -> Callable[[Run, Bound], None]:
    """An operation on the barrier `barrier_id`, with numbers."""

    def emit(run: Run, call: Bound) -> None:
        if not _in_launch(run, call):
            return
        args = [barrier_address(run, call, "barrier_id"), *(_number(run, call, n, "uint32") for n in numbers)]
        if any_unknown(args) is None:
            _emit(run, op, args, call)

    return emit


def _first_phase(run: Run, call: Bound) -> None:
    """Wait for the first phase, which is what the name means in TVM's script."""
    if _in_launch(run, call):
        address = barrier_address(run, call, "barrier_id")
        if not isinstance(address, Unknown):
            _emit(run, "mbarrier_wait", [address, X.const(0, "uint32")], call)


def _number(run: Run, call: Bound, name: str, dtype: str) -> Any:
    value = scalar(run, call.value(name), call.span_of(name))
    if isinstance(value, Unknown):
        run.complete = False
        return value
    if not isinstance(value, ir.Expr | int):
        what = f"`{name}` must be an integer, not {named_type(value)}"
        return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)
    return cast(dtype, value)


def _on_barrier(op: str, number: str | None = None) -> Callable[[Run, Bound], None]:
    def emit(run: Run, call: Bound) -> None:
        if not _in_launch(run, call):
            return
        args = [barrier_address(run, call)]
        if number is not None:
            args.append(_number(run, call, number, "uint32"))
        if any_unknown(args) is None:
            _emit(run, op, args, call)

    return emit


def _plain(op: str) -> Callable[[Run, Bound], None]:
    def emit(run: Run, call: Bound) -> None:
        if _in_launch(run, call):
            _emit(run, op, [], call)

    return emit


def _rank(run: Run, call: Bound) -> Any:
    if not _in_launch(run, call):
        return Unknown("the launch is not known")
    return tile_ops.call("tl.cluster_rank", [], dtype="int32", span=call.span)


def _wait_group(run: Run, call: Bound) -> None:
    number = as_int(call.value("num"))
    if number is None or number < 0:
        what = "`num` must be a number known at compile time, 0 or more"
        run.report(BAD_ARGUMENTS, call.span_of("num"), callee=call.callee, what=what)
    elif _in_launch(run, call):
        args = [X.const(number, "int32")]
        run.emit(Evaluate(tile_ops.call(tile_ops.ASYNC_WAIT, args, span=call.span), call.span))


def _async_copy(run: Run, call: Bound) -> None:
    record_operation(run, "copy", {"is_async": True}, call)
    if run.launch is not None:
        run.emit(Evaluate(tile_ops.call(tile_ops.ASYNC_COMMIT, [], span=call.span), call.span))


def _tma_copy(run: Run, call: Bound) -> None:
    """The copy as an operation on tiles; a barrier is what tells loads from stores."""
    if not _in_launch(run, call):
        return
    mask = mask_of(run, call)
    if isinstance(mask, Unknown):
        run.complete = False
        return
    if call.value("barrier") is None:
        if mask is not None:
            what = "takes `cluster_mask` for a copy into shared memory, with its barrier"
            run.report(BAD_ARGUMENTS, call.span_of("cluster_mask"), callee=call.callee, what=what)
            return
        record_operation(run, "copy", {"tma": True}, call)
        return
    barrier = barrier_address(run, call, "barrier")
    if isinstance(barrier, Unknown):
        run.complete = False
        return
    record_operation(run, "copy", {"tma": True, "barrier": barrier}, call)


def _store_wait(run: Run, call: Bound) -> None:
    count, read = as_int(call.value("count", 0)), call.value("read", True)
    if count is None or count < 0 or not isinstance(read, bool | int):
        what = "`count` is a number known at compile time, 0 or more, and `read` True or False"
        run.report(BAD_ARGUMENTS, call.span_of("count"), callee=call.callee, what=what)
    elif _in_launch(run, call):
        name = "tma_store_wait" if read else "tma_store_wait_all"
        _emit(run, name, [X.const(count, "int32")], call)


def _arrive(run: Run, call: Bound) -> None:
    """At a barrier of this block, or of another one of the cluster."""
    if call.value("cta_id") is None:
        _on_barrier("mbarrier_arrive")(run, call)
    elif _in_launch(run, call):
        args = [barrier_address(run, call), _number(run, call, "cta_id", "uint32")]
        if any_unknown(args) is None:
            _emit(run, "mbarrier_arrive_remote", args, call)


def _copies_arrive(run: Run, call: Bound) -> None:
    if _in_launch(run, call):
        barrier = barrier_address(run, call, "barrier")
        if not isinstance(barrier, Unknown):
            _emit(run, "cp_async_arrive", [barrier], call)


def _registers(increase: bool | None) -> Callable[[Run, Bound], None]:
    def emit(run: Run, call: Bound) -> None:
        count, up = call.value("reg_count"), increase
        number = as_int(count)
        if up is None:
            given = call.value("is_inc")
            if isinstance(given, Unknown):
                run.complete = False
                return
            up = bool(given)
        if isinstance(count, Unknown):
            run.complete = False
            return
        if number is None or not 24 <= number <= 256 or number % 8:
            near = "" if number is None else f"; the nearest is {min(max(24, round(number / 8) * 8), 256)}"
            what = f"`reg_count` is a multiple of 8 from 24 to 256, known at compile time{near}"
            run.report(BAD_ARGUMENTS, call.span_of("reg_count"), callee=call.callee, what=what)
        elif _in_launch(run, call):
            _emit(run, "setmaxnreg_inc" if up else "setmaxnreg_dec", [X.const(number, "int32")], call)

    return emit


def _nothing(run: Run, call: Bound) -> None:
    """A request that this compiler has nothing to do for."""


BARRIER_CALLS: Mapping[str, Callable[[Run, Bound], Any]] = {
    **BULK_CALLS,
    "alloc_barrier": _alloc_barrier,
    "mbarrier_arrive": _arrive,
    "tma_copy": _tma_copy,
    "tma_store_arrive": _plain("tma_store_arrive"),
    "tma_store_wait": _store_wait,
    "barrier_arrive": _on_barrier("mbarrier_arrive"),
    "mbarrier_wait_parity": _on_barrier("mbarrier_wait", "parity"),
    "barrier_wait": _on_barrier("mbarrier_wait", "parity"),
    "mbarrier_expect_tx": _on_barrier("mbarrier_expect_tx", "tx"),
    "mbarrier_arrive_expect_tx": _on_barrier("mbarrier_arrive_expect_tx", "tx"),
    "cp_async_barrier_noinc": _copies_arrive,
    "fence_proxy_async": _plain("fence_proxy_async"),
    "ptx_commit_group": _plain("async_commit"),
    "ptx_wait_group": _wait_group,
    "async_copy": _async_copy,
    "create_barriers": _numbered_barriers,
    "ptx_init_barrier_thread_count": _on_numbered("mbarrier_init", "thread_count"),
    "ptx_arrive_barrier": _on_numbered("mbarrier_arrive"),
    "ptx_arrive_barrier_expect_tx": _on_numbered("mbarrier_arrive_expect_tx", "byte_count"),
    "ptx_cp_async_barrier": _on_numbered("cp_async_arrive"),
    "ptx_wait_barrier": _first_phase,
    "ptx_arrive_cluster_barrier": _arrive,
    "ptx_fence_barrier_init": _plain("fence_barrier_init"),
    "copy_cluster": copy_cluster,
    "cluster_arrive": _plain("cluster_arrive"),
    "cluster_arrive_relaxed": _plain("cluster_arrive_relaxed"),
    "cluster_wait": _plain("cluster_wait"),
    "cluster_sync": _plain("cluster_sync"),
    "block_rank_in_cluster": _rank,
    "pdl_trigger": _plain("pdl_trigger"),
    "pdl_sync": _plain("pdl_sync"),
    "set_max_nreg": _registers(None),
    "inc_max_nreg": _registers(True),
    "dec_max_nreg": _registers(False),
    "no_set_max_nreg": _nothing,
    "disable_warp_group_reg_alloc": _nothing,
    "annotate_producer_reg_dealloc": _nothing,
    "annotate_consumer_reg_alloc": _nothing,
}
