"""shared-memory-budget: the tiles that are alive together exceed what a block may use."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.shared_memory import SharedTile, live_peak, shared_tiles
from tilelang.analysis.subject import Subject
from tilelang.arch.tables import limits
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.resource import SHARED_MEMORY_BUDGET
from tilelang.ops.operands import bytes_text


def check(subject: Subject) -> Iterator[Problem]:
    """A lower bound: symbolic tiles count as nothing, tiles that never live together share their place."""
    limit = limits(subject.target).shared_bytes
    if limit is None:
        return
    total, tiles = live_peak(subject.shared(shared_tiles))
    if total <= limit:
        return
    largest = max(tiles, key=lambda t: t.total or 0)
    yield SHARED_MEMORY_BUDGET.at(
        largest.buffer.span,
        related=tuple(Related(t.buffer.span, _part(t)) for t in tiles if t is not largest),
        total=bytes_text(total),
        target=subject.target,
        limit=bytes_text(limit),
        parts=" + ".join(_part(t) for t in tiles),
    )


def _part(tile: SharedTile) -> str:
    """`A_s 16 KiB × 3 stages`."""
    size = f"{tile.buffer.name} {bytes_text(tile.bytes or 0)}"
    return size if tile.stages == 1 else f"{size} × {tile.stages} stages"
