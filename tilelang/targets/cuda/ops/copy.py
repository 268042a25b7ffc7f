"""Copies of a pipeline stage: cp.async from global to shared memory, past the registers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tvm_ffi
from tvm import ir
from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.ir.guarded_load import guarded_load
from tilelang.passes.guard_bounds import conjunction
from tilelang.passes.parallel_loop import ParallelLoop
from tilelang.passes.walk import bits_of, constant, index
from tilelang.targets.simt.block import Block
from tilelang.targets.simt.ops.parallel import ParallelLowering

COMMIT = "tl.cuda.cp_async_commit"
WAIT = "tl.cuda.cp_async_wait"


def lower_async_copy(loop: ParallelLoop, block: Block) -> Any | None:
    """The loop with cp.async of 4, 8 or 16 bytes; None where the copy converts or does not come in such
    pieces.
    """
    store = loop.body
    if not isinstance(store, X.BufferStore) or loop.shape is None:
        return None
    load, condition = guarded_load(store.value)
    if load is None or load.source.scope() != "global" or str(load.source.dtype) != str(store.buffer.dtype):
        return None
    work = ParallelLowering(loop, block)
    size = work.lanes * bits_of(str(load.source.dtype)) // 8
    uniform = condition is None or block.widths.uniform(condition, work.inner, work.lanes)
    if size not in (4, 8, 16) or not uniform:
        return None
    to, come = work.first_indices(store), work.first_indices(load)
    if to is None or come is None:
        return None
    args = [X.address_of(X.BufferLoad(store.buffer, to)), X.address_of(X.BufferLoad(load.source, come))]
    name = f"tl.cuda.cp_async_{size}"
    if condition is not None:
        inside = _each_once(block.simplify(work.expression(condition, None)))
        if constant(inside) != 1:
            args, name = [*args, inside], f"{name}_guarded"
    block.note_instruction(loop.span, f"cp.async {size} bytes")
    return work.unroll(X.Evaluate(tile_ops.call(name, args, span=loop.span), loop.span))


def _each_once(condition: Any) -> Any:
    """A conjunction without repetitions: an author's condition and that of the bounds often share parts."""
    parts: list[Any] = []
    for part in _conjuncts(condition):
        if not any(tvm_ffi.structural_equal(part, p) for p in parts):
            parts.append(part)
    return conjunction(parts)


def _conjuncts(condition: Any) -> Iterator[Any]:
    if isinstance(condition, X.And):
        yield from _conjuncts(condition.a)
        yield from _conjuncts(condition.b)
    else:
        yield condition


def lower_commit(stmt: Any, block: Block) -> Any:
    """Close the group of copies issued since the last one."""
    return X.Evaluate(tile_ops.call(COMMIT, [], span=stmt.span), stmt.span)


def lower_wait(stmt: Any, block: Block) -> Any:
    """Wait until at most so many of the newest groups are in flight."""
    call: ir.Call = stmt.value
    return X.Evaluate(tile_ops.call(WAIT, [index(int(call.args[0].value))], span=stmt.span), stmt.span)
