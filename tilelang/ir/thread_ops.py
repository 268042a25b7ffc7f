"""Operations in which threads of a block meet: shuffles, votes, counting barriers. One table of their names.

Each is a call `tl.<name>` on scalars of the calling thread; targets print it by their table of intrinsics,
the CPU runs it by `targets.cpu.threads`.
"""

from __future__ import annotations

from typing import Any

from tvm import ir
from tvm_ffi import structural_walk

# (value, lane or distance, width of a segment, mask of the lanes that take part)
SHUFFLES = ("tl.shfl_sync", "tl.shfl_xor", "tl.shfl_up", "tl.shfl_down")
# (predicate, mask) -> int32, 1 or 0
VOTES = ("tl.any_sync", "tl.all_sync")
# -> uint64, one bit for each lane of the warp: (predicate, mask), (predicate), ()
BALLOTS = ("tl.ballot_sync", "tl.ballot", "tl.activemask")
# (value, mask) -> uint32, one bit for each lane of the warp that holds the same value
MATCHES = ("tl.match_any_sync", "tl.match_all_sync")
# (predicate) -> int32, over all threads of the block, which wait for each other
BLOCK_VOTES = ("tl.syncthreads_count", "tl.syncthreads_and", "tl.syncthreads_or")
# (value) -> the same value in all lanes of the warp
WARP_REDUCTIONS = (
    "tl.warp_reduce_sum",
    "tl.warp_reduce_max",
    "tl.warp_reduce_min",
    "tl.warp_reduce_bitand",
    "tl.warp_reduce_bitor",
)
# (value, lane, count) -> the same in a warp of which only the first `count` lanes exist; lowering makes them
PART_WARP_REDUCTIONS = tuple(name.replace("tl.", "tl.part_") for name in WARP_REDUCTIONS)
COLLECTIVES = frozenset((*SHUFFLES, *VOTES, *BALLOTS, *MATCHES, *BLOCK_VOTES, *WARP_REDUCTIONS))

SYNC_WARP = "tl.sync_warp"  # (mask)
SYNC_GRID = "tl.sync_grid"  # ()
NAMED_SYNC = "tl.named_sync"  # (barrier, threads): part of the block waits for each other
NAMED_ARRIVE = "tl.named_arrive"  # (barrier, threads): part of the block says that it was here

WARP_SIZE = "tl.warp_size"  # () -> int32: a number once the target is known


def call_name(value: Any) -> str:
    """The name of the operation that `value` calls; empty for anything else."""
    return str(value.op.name) if isinstance(value, ir.Call) and isinstance(value.op, ir.Op) else ""


def waits_for_the_grid(body: Any) -> bool:
    """Whether blocks of the grid wait for each other in a function's body."""
    found: list[ir.Call] = []
    structural_walk(body, (ir.Call, found.append))
    return any(call_name(c) == SYNC_GRID for c in found)


def is_collective(value: Any) -> bool:
    """Whether `value` is a call in which threads exchange values."""
    return call_name(value) in COLLECTIVES
