"""One arena of shared memory for all buffers of a block: byte offsets by liveness.

In:  thread-level statements with barriers in place, and the layouts of shared buffers.
Out: an offset for every shared buffer and the size of the arena. Two buffers share bytes only if a barrier
     that all threads pass stands between the last access to one and the first access to the other.
Not: changing the function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.layout.shared import SharedLayout, linear
from tilelang.passes.accesses import all_accesses, storages
from tilelang.passes.walk import bits_of, shape_of, walk


@dataclass(frozen=True)
class Arena:
    """Byte offsets by handle of the buffer, the total, and (name, bytes) of every buffer, largest first."""

    offsets: Mapping[int, int]
    bytes: int
    sizes: tuple[tuple[str, int], ...] = ()


@dataclass
class _Life:
    """From the first to the last stretch between top-level barriers in which the buffer is touched."""

    bytes: int
    alignment: int
    first: int | None = None
    last: int = 0

    def overlaps(self, other: _Life) -> bool:
        assert self.first is not None and other.first is not None
        return self.first <= other.last and other.first <= self.last


def plan_shared(body: Any, layouts: Mapping[int, SharedLayout]) -> Arena:
    """Place every shared buffer that `body` allocates and touches."""
    lives: dict[int, _Life] = {}
    names: dict[int, str] = {}
    for stmt in walk(body):
        if isinstance(stmt, X.AllocBuffer) and stmt.buffer.scope().startswith("shared"):
            layout = layout_of(stmt.buffer, layouts)
            names[stmt.buffer.__chandle__()] = str(stmt.buffer.name)
            lives[stmt.buffer.__chandle__()] = _Life(layout.bytes, layout.alignment)
    views = storages(body)
    _measure(body, 0, lives | {view: lives[base] for view, base in views.items() if base in lives})
    offsets: dict[int, int] = {}
    used = [(h, life) for h, life in lives.items() if life.first is not None]
    for handle, life in sorted(used, key=lambda item: -item[1].bytes):
        taken = sorted(
            (offsets[h], offsets[h] + o.bytes) for h, o in used if h in offsets and o.overlaps(life)
        )
        offsets[handle] = _first_fit(life, taken)
    size = max((offsets[h] + life.bytes for h, life in used), default=0)
    sizes = sorted(((names[h], life.bytes) for h, life in used), key=lambda item: -item[1])
    return Arena(offsets, size, tuple(sizes))


def layout_of(buffer: ir.Var, layouts: Mapping[int, SharedLayout]) -> SharedLayout:
    """The layout of a shared buffer; row-major for those that lowering made."""
    found = layouts.get(buffer.__chandle__())
    return found if found is not None else linear(shape_of(buffer), bits_of(str(buffer.dtype)))


def _first_fit(life: _Life, taken: list[tuple[int, int]]) -> int:
    at = 0
    for begin, end in taken:
        if at + life.bytes <= begin:
            break
        at = max(at, -(-end // life.alignment) * life.alignment)
    return at


def _measure(stmt: Any, stretch: int, lives: dict[int, _Life]) -> int:
    """Note the touched buffers; the number of the stretch after `stmt`. Barriers inside loops do not divide
    anything.
    """
    if isinstance(stmt, X.SeqStmt):
        for part in stmt.seq:
            stretch = _measure(part, stretch, lives)
        return stretch
    if isinstance(stmt, X.AttrStmt):
        return _measure(stmt.body, stretch, lives)
    if isinstance(stmt, X.Evaluate) and tile_ops.is_call(stmt.value, tile_ops.SYNC):
        return stretch + 1
    for access in all_accesses(stmt):
        life = lives.get(access.buffer.__chandle__())
        if life is not None:
            life.first = stretch if life.first is None else life.first
            life.last = stretch
    return stretch
