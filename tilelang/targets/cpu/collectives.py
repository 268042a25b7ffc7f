"""Shuffles, votes and warp reductions on the CPU: every thread's operand is stored, then read by the others.

A warp has 32 lanes, as on CUDA. A lane that does not take part is never read by a vote; a shuffle that reads
one gets an undefined value, as on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tvm import ir
from tvm import tirx as X

from tilelang.ir import thread_ops
from tilelang.targets.cpu.nests import REGISTERS, index

WARP = 32


class Exchange(Protocol):
    """What this needs of the pass over thread code."""

    count: int

    @property
    def thread(self) -> Any:
        """The number of the thread."""

    def store_all(self, name: str, value: Any) -> ir.Var:
        """An array with `value` of every thread."""

    def result_array(self, name: str, dtype: str, count: int) -> ir.Var:
        """Memory of the block."""

    def put(self, stmt: Any) -> None:
        """A statement of the block as a whole, after what is there."""

    def takes_part(self, thread: Any) -> Any:
        """Whether a thread is active."""


def exchange(call: ir.Call, threads: Exchange) -> Any:
    """The value of a collective call in each thread; what computes it is put out first."""
    name, args = thread_ops.call_name(call), list(call.args)
    dtype = str(call.ty.dtype)
    if name in thread_ops.SHUFFLES:
        return _shuffle(name, args, threads)
    if name in thread_ops.BLOCK_VOTES:
        return _block_vote(name, args[0], threads)
    if name in thread_ops.WARP_REDUCTIONS:
        return _reduction(name, args[0], dtype, threads)
    if name in thread_ops.MATCHES:
        return _match(name, args[0], dtype, threads)
    return _vote(name, args, dtype, threads)


def _shuffle(name: str, args: list[Any], threads: Exchange) -> Any:
    """CUDA C++ Programming Guide, warp shuffles: segments of `width` lanes, the own value beyond them."""
    value, by, width = args[:3]
    by, width = X.Cast("int32", by), X.Cast("int32", width)
    array = threads.store_all("lanes", value)
    thread = threads.thread
    inside = thread % width
    start = thread - inside
    match name.removeprefix("tl."):
        case "shfl_sync":
            source = start + X.floormod(by, width)
        case "shfl_xor":
            other = X.bitwise_xor(thread % WARP, by)
            source = X.Select(
                other < (thread % WARP) // width * width + width, thread - thread % WARP + other, thread
            )
        case "shfl_up":
            source = X.Select(inside >= by, thread - by, thread)
        case _:
            source = X.Select(inside + by < width, thread + by, thread)
    # The last warp may have fewer lanes; what the others would hold is undefined.
    last = index(threads.count - 1)
    return X.BufferLoad(array, [X.max(X.min(source, last), index(0))])


def _holds(predicate: Any) -> Any:
    """A predicate as a condition."""
    dtype = str(predicate.ty.dtype)
    return predicate if dtype == "bool" else X.NE(predicate, X.const(0, dtype))


def _block_vote(name: str, predicate: Any, threads: Exchange) -> Any:
    flags = threads.store_all("flags", _holds(predicate))
    everyone = name.endswith("_and")
    total, t = _register("votes", "int32"), X.Var("t", "int32")
    load, here = X.BufferLoad(total, [index(0)]), X.Cast("int32", X.BufferLoad(flags, [t]))
    if name.endswith("_count"):
        value = load + here
    else:
        value = X.min(load, here) if everyone else X.max(load, here)
    threads.put(X.AllocBuffer(total))
    threads.put(X.BufferStore(total, index(1 if everyone else 0), [index(0)]))
    threads.put(_each(t, threads.count, _guarded(threads, t, X.BufferStore(total, value, [index(0)]))))
    return load


def _vote(name: str, args: list[Any], dtype: str, threads: Exchange) -> Any:
    """any, all, ballot, activemask: one result for each warp."""
    kind = name.removeprefix("tl.").removesuffix("_sync")
    predicate = _holds(args[0]) if kind != "activemask" else X.const(True, "bool")
    flags = threads.store_all("flags", predicate)
    start = X.const(1 if kind == "all" else 0, dtype)

    def combine(total: Any, lane: Any, thread: Any) -> Any:
        here = X.Cast(dtype, X.BufferLoad(flags, [thread]))
        if kind == "any":
            return X.max(total, here)
        if kind == "all":
            return X.min(total, here)
        return X.bitwise_or(total, X.shift_left(here, X.Cast(dtype, lane)))

    return _by_warp("vote", dtype, start, combine, threads)


def _reduction(name: str, value: Any, dtype: str, threads: Exchange) -> Any:
    array = threads.store_all("lanes", value)
    kind = name.removeprefix("tl.warp_reduce_")
    apply: Callable[[Any, Any], Any] = {
        "sum": lambda a, b: X.Add(a, b),
        "max": X.max,
        "min": X.min,
        "bitand": X.bitwise_and,
        "bitor": X.bitwise_or,
    }[kind]
    count = -(-threads.count // WARP)
    results = threads.result_array("reduced", dtype, count)
    warp, lane = X.Var("warp", "int32"), X.Var("lane", "int32")
    thread = warp * WARP + lane
    total = X.BufferLoad(results, [warp])
    here = X.BufferLoad(array, [thread])
    first = X.BufferStore(results, X.BufferLoad(array, [warp * WARP]), [warp])
    more = X.BufferStore(results, apply(total, here), [warp])
    inner = X.For(lane, index(1), index(WARP - 1), X.ForKind.SERIAL, _below(thread, threads.count, more))
    threads.put(_each(warp, count, X.SeqStmt([first, inner])))
    return X.BufferLoad(results, [threads.thread // WARP])


def _match(name: str, value: Any, dtype: str, threads: Exchange) -> Any:
    """One bit for each lane with the same value; match_all: all bits or none."""
    array = threads.store_all("lanes", value)
    results = threads.result_array("matches", dtype, threads.count)
    t, lane = X.Var("t", "int32"), X.Var("lane", "int32")
    other = t // WARP * WARP + lane
    same = X.Cast(dtype, X.EQ(X.BufferLoad(array, [t]), X.BufferLoad(array, [other])))
    bits = X.bitwise_or(X.BufferLoad(results, [t]), X.shift_left(same, X.Cast(dtype, lane)))
    one = _below(other, threads.count, _guarded(threads, other, X.BufferStore(results, bits, [t])))
    lanes = X.For(lane, index(0), index(WARP), X.ForKind.SERIAL, one)
    start = X.BufferStore(results, X.const(0, dtype), [t])
    threads.put(_each(t, threads.count, X.SeqStmt([start, lanes])))
    found = X.BufferLoad(results, [threads.thread])
    if name.endswith("all_sync"):
        active = _vote("tl.activemask", [], dtype, threads)
        return X.if_then_else(X.EQ(found, active), found, X.const(0, dtype))
    return found


def _by_warp(
    name: str, dtype: str, start: Any, combine: Callable[[Any, Any, Any], Any], threads: Exchange
) -> Any:
    """`combine(total, lane, thread)` over the active lanes of every warp; the thread's own warp's result."""
    count = -(-threads.count // WARP)
    results = threads.result_array(name, dtype, count)
    warp, lane = X.Var("warp", "int32"), X.Var("lane", "int32")
    thread = warp * WARP + lane
    step = X.BufferStore(results, combine(X.BufferLoad(results, [warp]), lane, thread), [warp])
    one = _below(thread, threads.count, _guarded(threads, thread, step))
    lanes = X.For(lane, index(0), index(WARP), X.ForKind.SERIAL, one)
    threads.put(_each(warp, count, X.SeqStmt([X.BufferStore(results, start, [warp]), lanes])))
    return X.BufferLoad(results, [threads.thread // WARP])


def _each(var: ir.Var, count: int, body: Any) -> Any:
    return X.For(var, index(0), index(count), X.ForKind.SERIAL, body)


def _below(thread: Any, count: int, stmt: Any) -> Any:
    """`stmt` for lanes that exist: the last warp may be smaller."""
    return stmt if count % WARP == 0 else X.IfThenElse(thread < count, stmt, None)


def _guarded(threads: Exchange, thread: Any, stmt: Any) -> Any:
    condition = threads.takes_part(thread)
    return stmt if isinstance(condition, X.IntImm) else X.IfThenElse(condition, stmt, None)


def _register(name: str, dtype: str) -> ir.Var:
    return X.decl_buffer((1,), dtype, name, scope=REGISTERS)
