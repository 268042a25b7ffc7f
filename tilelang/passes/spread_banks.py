"""Row-major tiles of shared memory in which the threads of a warp would wait for each other's banks.

In:  a function whose elementwise work is Parallel loops with layouts, and its row-major tiles.
Out: another layout for each tile whose accesses take at most half as many turns then. The language promises
     no order of elements in a tile that nothing else than Parallel loops touches.
Not: tiles of tensor cores, of TMA and of foreign code, tiles with views, what the author has laid out; an
     index that is read from memory, which may be anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import ir
from tvm import tirx as X

from tilelang.ir.evaluate import NotEvaluable, evaluate
from tilelang.layout.banks import TileAccess, fewest_turns
from tilelang.layout.fragment import Fragment
from tilelang.layout.shared import SharedLayout
from tilelang.passes.accesses import accesses
from tilelang.passes.loop_layouts import contiguous_registers
from tilelang.passes.parallel_loop import ParallelLoop, VectorWidths
from tilelang.passes.walk import calls, children, constant, product, variables

_WARP = 32
_STEPS = 4  # of a thread's iterations, which differ little in this


@dataclass(frozen=True)
class LaidOutLoop:
    """A Parallel loop, who runs which iteration of it, and how often the loops around run it."""

    loop: ParallelLoop
    layout: Fragment
    times: int


def spread_banks(
    tiles: Mapping[int, SharedLayout],
    loops: Iterable[LaidOutLoop],
    thread_vars: set[int],
    widths: VectorWidths,
) -> dict[int, SharedLayout]:
    """The layouts to put in place of those of some of the row-major `tiles`, by handle. `loops`: all
    statements that touch them; `thread_vars`: handles of the variables that differ between threads.
    """
    found: dict[int, list[TileAccess]] = {}
    unknown: set[int] = set()
    for one in loops:
        touched = {a.buffer.__chandle__() for a in one.loop.accesses} & tiles.keys() - unknown
        if not touched:
            continue
        unknown |= touched & set(_pointed(one.loop.body))
        for handle, access in _TileAccesses(one, touched - unknown, thread_vars, widths).all():
            if access is None:
                unknown.add(handle)
            else:
                found.setdefault(handle, []).append(access)
    chosen = {h: fewest_turns(tiles[h], done) for h, done in found.items() if h not in unknown}
    return {h: layout for h, layout in chosen.items() if layout is not tiles[h]}


def _pointed(body: Any) -> Iterator[int]:
    """Buffers of which something takes an address: it may go on to what lies behind."""
    for call in calls(body):
        if isinstance(call.op, ir.Op) and call.op.name == "tirx.address_of":
            yield call.args[0].source.__chandle__()


class _TileAccesses:
    """What the first warp of a loop accesses in tiles."""

    def __init__(
        self, one: LaidOutLoop, tiles: set[int], thread_vars: set[int], widths: VectorWidths
    ) -> None:
        self._loop, self._layout, self._times = one.loop, one.layout, one.times
        self._tiles, self._widths = tiles, widths
        self._unknown = set(thread_vars)  # variables of which it is not known what they are for each thread
        self._neighbours = contiguous_registers(one.layout)
        self._width = {
            a.element.__chandle__(): self._together(widths.access(one.loop, a))
            for a in one.loop.accesses
            if a.buffer.__chandle__() in tiles
        }

    def all(self) -> Iterator[tuple[int, TileAccess | None]]:
        """(handle of the tile, the access), None for one that is not known."""
        step = max(self._width.values(), default=1)
        for register in list(range(0, self._layout.registers, step))[:_STEPS]:
            lanes = np.arange(min(_WARP, self._layout.threads))
            at = [np.broadcast_to(i, lanes.shape) for i in self._layout.indices(lanes, register)]
            inside = np.logical_and.reduce([i < n for i, n in zip(at, self._layout.shape, strict=True)])
            if inside.any():
                env = {v.__chandle__(): i[inside] for v, i in zip(self._loop.vars, at, strict=True)}
                with np.errstate(divide="ignore"):
                    yield from self._visit(self._loop.body, env, self._times)

    def _together(self, width: int) -> int:
        while self._neighbours % width:
            width //= 2
        return width

    def _visit(self, stmt: Any, env: dict[int, Any], times: int) -> Iterator[tuple[int, TileAccess | None]]:
        for access in accesses(stmt):
            handle = access.buffer.__chandle__()
            if handle in self._tiles:
                yield handle, self._access(access.element, env, times)
        if isinstance(stmt, X.Bind):
            self._bind(stmt, env)
        if isinstance(stmt, X.For):
            times *= constant(stmt.extent) or 1
        for child in children(stmt):
            yield from self._visit(child, env, times)

    def _bind(self, stmt: X.Bind, env: dict[int, Any]) -> None:
        handle = stmt.var.__chandle__()
        try:
            env[handle] = evaluate(stmt.value, self._known(stmt.value, env))
        except NotEvaluable:
            self._unknown.add(handle)

    def _access(self, element: Any, env: dict[int, Any], times: int) -> TileAccess | None:
        if isinstance(element, ir.TensorRegion):
            return None
        try:
            indices = tuple(evaluate(i, self._known(i, env)) for i in element.indices)
        except NotEvaluable:
            return None
        return TileAccess(indices, self._width.get(element.__chandle__(), 1), times)

    def _known(self, expr: Any, env: dict[int, Any]) -> dict[int, Any]:
        """`env`, and zero for what is the same for all threads: blocks, sizes, loops around."""
        same = {v.__chandle__(): 0 for v in variables(expr) if not X.is_buffer_var(v)}
        return {h: value for h, value in (same | env).items() if h not in self._unknown}


def times_around(outer: Mapping[int, int]) -> int:
    """How often serial loops that end at these numbers run what is inside them, about."""
    return product(max(1, end) for end in outer.values())
