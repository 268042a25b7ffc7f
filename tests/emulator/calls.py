"""What a call does in the threads that make it: each family of instructions has a file of its own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import ir
from tvm import tirx as X

from tests.emulator import atomics, collectives, copies, instructions, matrices
from tests.emulator.expressions import dtype_of
from tests.emulator.memory import EmulationError, numpy_dtype
from tilelang.ir import thread_ops

if TYPE_CHECKING:
    from tests.emulator.block import Block

_NO_EFFECT = ("fence_barrier_init", "pdl_trigger", "pdl_sync", "setmaxnreg_inc", "setmaxnreg_dec")
_COLLECTIVES = frozenset(
    name.removeprefix("tl.")
    for name in (
        *thread_ops.COLLECTIVES,
        *thread_ops.PART_WARP_REDUCTIONS,
        thread_ops.SYNC_WARP,
        thread_ops.NAMED_ARRIVE,
    )
)


def execute(block: Block, call: ir.Call, mask: np.ndarray) -> Any:
    """The value of a call for each thread; None for a statement."""
    name, args = str(call.op.name).removeprefix("tl.").removeprefix("cuda."), list(call.args)
    block.count(name)
    if name in _COLLECTIVES:
        return _collective(block, name, args, mask)
    if name.startswith(copies.STARTS):
        return copies.execute(block, name, args, mask)
    if name.startswith(matrices.STARTS):
        return matrices.execute(block, name, args, mask)
    if name == "dp4a":
        return _dot_of_four(block, args, mask)
    if name == "shuffle_xor":
        return _shuffle_xor(block, args, mask)
    if name.startswith("atomic_"):
        return atomics.update(block, name, args, mask)
    if name == "store_half":
        return atomics.store_half(block, args, mask)
    if name.startswith("print_"):
        return _print_line(block, args, mask)
    if name == "check":
        return _assert_holds(block, args[0], str(args[1].value), mask)
    if name in _NO_EFFECT:
        return None
    return _converted(block, name, call, mask)


def _converted(block: Block, name: str, call: ir.Call, mask: np.ndarray) -> Any:
    """A number in another form."""
    if (pair := instructions.PACKED_PAIR.fullmatch(name)) is not None:
        return _decode_pair(block, pair[1], call.args[0].args[0], call.args[1], mask)
    value = np.asarray(block.e.value(call.args[0], mask))
    if name == "round_tf32":
        return instructions.round_tf32(value)
    if name == "encode_float4":
        return instructions.encode_float4(value)
    if name.startswith("decode_float4"):
        return instructions.decode("float4", value).astype(numpy_dtype(dtype_of(call)))
    raise NotImplementedError(name)


def _dot_of_four(block: Block, args: list[Any], mask: np.ndarray) -> np.ndarray:
    """The products of four int8 each, at addresses that must be multiples of four bytes."""
    total = np.broadcast_to(np.asarray(block.e.value(args[0], mask)), (block.threads,)).astype(np.int64)
    parts = []
    for address in args[1:]:
        first = address.args[0]
        at = np.asarray(block.e.value(first.indices[0], mask))
        if (np.broadcast_to(at, (block.threads,))[mask] % 4).any():
            raise EmulationError(f"line {block.line}: dp4a reads {first.source.name} at an odd address")
        here = X.BufferLoad(first.source, [X.Ramp(first.indices[0], 1, 4)])
        parts.append(np.asarray(block.e.value(here, mask)).astype(np.int64))
    return (total + (parts[0] * parts[1]).sum(-1)).astype(np.int32)


def _shuffle_xor(block: Block, args: list[Any], mask: np.ndarray) -> np.ndarray:
    block.whole(mask, "a shuffle", 32, absent=True)
    value = np.broadcast_to(np.asarray(block.e.value(args[0], mask)), (block.threads,))
    source = block.number ^ int(args[1].value)
    if (source[mask] >= block.threads).any():
        raise EmulationError(f"line {block.line}: a shuffle reads a lane that is not there")
    return value[np.minimum(source, block.threads - 1)]


def _decode_pair(block: Block, dtype: str, to: Any, byte: Any, mask: np.ndarray) -> None:
    """Both numbers of a byte to two neighbouring registers."""
    whole = np.broadcast_to(np.asarray(block.e.value(byte, mask)), (block.threads,))
    first = np.broadcast_to(np.asarray(block.e.value(to.indices[0], mask)), (block.threads,))
    at = (first[:, None] + np.arange(2))[mask]
    block.check(to.source, at, True)
    both = np.stack([whole & 15, whole >> 4], 1)[mask]
    block.local[to.source.__chandle__()][block.number[mask][:, None], at] = instructions.decode(dtype, both)


def _collective(block: Block, name: str, args: list[Any], mask: np.ndarray) -> Any:
    """Threads exchange values where they are."""
    values = [np.broadcast_to(np.asarray(block.e.value(a, mask)), (block.threads,)) for a in args]
    if name == "named_arrive":
        for _ in block.meet(int(args[0].value), int(args[1].value), mask, False):
            raise AssertionError("an arrival waits for nobody")
        return None
    if name == "sync_warp":
        if len(block.actors) == 1:
            block.shared.barrier()
        else:
            who = block.number[mask]
            block.shared.order.learn(who, block.shared.order.publish(who))
        return None
    if name.startswith("shfl_"):
        try:
            return collectives.shuffle(name, values[0], values[1], values[2], mask)
        except ValueError as error:
            raise EmulationError(f"line {block.line}: {error}") from None
    if name.startswith("match_"):
        return collectives.match(name, values[0], mask)
    if name.startswith("warp_reduce_"):
        block.whole(mask, name, 32)
        return collectives.reduce(name, values[0])
    if name.startswith("part_warp_reduce_"):
        block.whole(mask, name, 32, absent=True)
        try:
            return collectives.reduce_part(name, values[0], values[1], values[2], mask)
        except ValueError as error:
            raise EmulationError(f"line {block.line}: {error}") from None
    if name.startswith("syncthreads_"):
        block.whole(mask, name, block.threads)
        block.shared.barrier()
        flags = values[0].astype(bool)
        found = {"count": flags.sum(), "and": flags.all(), "or": flags.any()}[name.partition("_")[2]]
        return np.int32(found)
    everyone = np.full(block.threads, 0xFFFFFFFF, np.uint64)
    predicate = values[0].astype(bool) if values else np.ones(block.threads, bool)
    lanes = values[1].astype(np.uint64) if len(values) > 1 else everyone
    return collectives.vote(name, predicate, lanes, mask)


def _print_line(block: Block, args: list[Any], mask: np.ndarray) -> None:
    """One line for each thread, as `printf` writes it."""
    values = [np.broadcast_to(np.asarray(block.e.value(a, mask)), (block.threads,)) for a in args[1:]]
    place = (*block.place, 0, 0)[:3]
    for thread in block.number[mask]:
        at = [thread // int(np.prod(block.thread_shape[:k])) % n for k, n in enumerate(block.thread_shape)]
        given = (*place, *[*at, 0, 0][:3], *(v[thread].item() for v in values))
        block.statistics.printed.append(re.sub("ll[du]", "d", str(args[0].value)) % given)


def _assert_holds(block: Block, condition: Any, text: str, mask: np.ndarray) -> None:
    holds = np.broadcast_to(np.asarray(block.e.value(condition, mask), bool), (block.threads,))
    if not holds[mask].all():
        raise EmulationError(text)
