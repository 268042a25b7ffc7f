"""Tiles -> the code of one thread, ordered by barriers, and where its shared memory lies.

In:  a function whose elementwise work is Parallel loops with guarded accesses, its LayoutMap, and the ways in
     which the target can lower its operations, the best one first.
Out: the function of the first way whose shared memory fits the target; where none does, of the last.
Not: refusing a kernel that does not fit (see `budget`), which has a better place in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tvm import tirx as X

from tilelang.arch.target import Target
from tilelang.passes.infer_layouts import LayoutMap
from tilelang.passes.insert_sync import insert_sync
from tilelang.passes.plan_shared import Arena, apart, plan_shared
from tilelang.targets.simt.budget import fits
from tilelang.targets.simt.lower_tile_ops import TargetOps, ThreadFunction, lower_tile_ops


@dataclass(frozen=True)
class Placed:
    """The kernel for one thread: as `thread` before barriers, as `func` with them."""

    layouts: LayoutMap
    thread: ThreadFunction
    func: X.PrimFunc
    arena: Arena


def place(
    tiles: X.PrimFunc,
    layouts: LayoutMap,
    threads: int,
    target: Target,
    ways: Iterable[TargetOps],
    *,
    versioned: Iterable[int] = (),
    settle: Callable[[ThreadFunction], ThreadFunction] = lambda thread: thread,
) -> Placed:
    """Lower the tiles of blocks of `threads`.

    versioned: handles of tiles that a pipeline orders. settle: what the target does before barriers are set.
    """
    versioned = frozenset(versioned)
    placed = None
    for ops in ways:
        thread = settle(lower_tile_ops(tiles, layouts, threads, target, ops))
        func = insert_sync(thread.func, thread.block_level, versioned, thread.teams, thread.by_some)
        arena = plan_shared(func.body, layouts.shared)
        if not fits(arena, target):
            func = apart(func)
            arena = plan_shared(func.body, layouts.shared)
        placed = Placed(layouts, thread, func, arena)
        if fits(arena, target):
            break
    assert placed is not None, "a target has some way to lower its operations"
    return placed
