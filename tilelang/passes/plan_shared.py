"""One arena of shared memory for all buffers of a block: byte offsets by liveness.

In:  thread-level statements with barriers in place, and the layouts of shared buffers.
Out: an offset for every shared buffer and the size of the arena. Two buffers share bytes only if a barrier
     that all threads pass stands between the last access to one and the first access to the other.
     `apart` makes barriers for that, where the tiles do not fit otherwise.
Not: changing anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.layout.shared import SharedLayout, linear
from tilelang.passes.accesses import all_accesses, barrier_buffers, storages
from tilelang.passes.walk import bits_of, calls, children, remake, shape_of, walk

_EVER = 1 << 30  # no stretch has that number
_ATOM = 1024  # bytes of the widest swizzle atom
_BARRIER = 8  # bytes of an mbarrier
_ASYNCHRONOUS = (
    *("tl.cuda.tma_", "tl.cuda.bulk_", "tl.tma_", "tl.bulk_"),
    *("tl.mbarrier_", "tl.wgmma_wait", "tl.cuda.wgmma_wait"),
)


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
    for handle in barrier_buffers(body) & lives.keys():
        lives[handle].alignment = _BARRIER  # a tile's 128 bytes for each would add up
    by_name = lives | {view: lives[base] for view, base in views.items() if base in lives}
    _measure(body, 0, by_name)
    _keep_described(body, by_name)
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


def apart(func: X.PrimFunc) -> X.PrimFunc:
    """The function with a barrier wherever, outside loops and conditions, tiles are touched for the first
    time after others were for the last; itself where there is none.

    What asynchronous copies touch is theirs until the author has waited, so a function with any stays as
    it is.
    """
    if any(str(getattr(c.op, "name", "")).startswith(_ASYNCHRONOUS) for c in calls(func.body)):
        return func
    views = storages(func.body)
    touched: dict[int, set[int]] = {}  # part at the top -> shared buffers
    for part in _parts(func.body):
        found = (a.buffer for a in all_accesses(part) if a.buffer.scope().startswith("shared"))
        handles: set[int] = {b.__chandle__() for b in found}
        touched[part.__chandle__()] = {views.get(h, h) for h in handles}
    order = list(touched)
    first = {h: k for k, part in reversed(list(enumerate(order))) for h in touched[part]}
    last = {h: k for k, part in enumerate(order) for h in touched[part]}
    over: set[int] = set()  # since the last barrier

    def visit(stmt: Any) -> Any:
        if isinstance(stmt, X.SeqStmt | X.AttrStmt):
            return remake(stmt, visit)
        if isinstance(stmt, X.Evaluate) and tile_ops.is_call(stmt.value, tile_ops.SYNC):
            over.clear()
            return stmt
        k, mine = order.index(stmt.__chandle__()), touched[stmt.__chandle__()]
        new = stmt
        if over and any(first[h] == k for h in mine):
            new = tile_ops.seq(
                [X.Evaluate(tile_ops.call(tile_ops.SYNC, [], span=stmt.span), stmt.span), stmt]
            )
            over.clear()
        over.update(h for h in mine if last[h] == k)
        return new

    body = visit(func.body)
    return func if body.same_as(func.body) else func.with_body(body)


def _parts(stmt: Any) -> list[Any]:
    """The statements that every thread of the block passes once, in order."""
    if isinstance(stmt, X.SeqStmt | X.AttrStmt):
        return [part for child in children(stmt) for part in _parts(child)]
    return [stmt]


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


def _keep_described(body: Any, lives: Mapping[int, _Life]) -> None:
    """Tiles that descriptors are about are read long after these were made, and lie as swizzles want."""
    for call in calls(body):
        if tile_ops.is_call(call, tile_ops.MATRIX_DESCRIPTOR):
            life = lives.get(call.args[3].args[0].source.__chandle__())
            if life is not None:
                life.last, life.alignment = _EVER, _ATOM


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
