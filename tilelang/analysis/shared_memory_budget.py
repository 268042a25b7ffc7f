"""shared-memory-budget: the tiles that are alive together exceed what a block may use."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.shared_memory import (
    SharedTile,
    live_peak,
    pipeline_stages,
    shared_tiles,
    shared_use,
)
from tilelang.analysis.subject import Subject
from tilelang.arch.tables import limits
from tilelang.diagnostics.problem import Fix, Problem, Related
from tilelang.diagnostics.rules.resource import SHARED_MEMORY_BUDGET
from tilelang.ir.tile_program import Loop
from tilelang.ir.values import as_int
from tilelang.ops.operands import bytes_text
from tilelang.ops.source_edits import keyword_edit


def check(subject: Subject) -> Iterator[Problem]:
    """A lower bound: symbolic extents count as 1, tiles that never live together share their place.

    Where the lowering surely lays all tiles out side by side, the padding of their rows counts too.
    """
    limit = limits(subject.target).shared_bytes
    if limit is None:
        return
    tiles = subject.shared(shared_tiles)
    total, alive = live_peak(tiles)
    padded = False
    if total <= limit:
        use = shared_use(subject)
        if use is None or not use.exact or use.bytes <= limit:
            return
        total, alive, padded = use.bytes, [t for t in tiles if t.last > 0], True
    largest = max(alive, key=lambda t: t.at_least)
    yield SHARED_MEMORY_BUDGET.at(
        largest.buffer.span,
        related=(
            *(Related(t.buffer.span, _part(t, padded)) for t in alive if t is not largest),
            *(Related(loop.span, "this loop keeps several versions") for loop in _pipelines(subject, alive)),
        ),
        fixes=_fewer_stages(subject, alive, total - limit),
        least="" if padded else "at least ",
        total=bytes_text(total),
        target=subject.target,
        limit=bytes_text(limit),
        parts=", ".join(_part(t, padded) for t in alive),
    )


def _part(tile: SharedTile, padded: bool) -> str:
    """`A_s 16 KiB × 3 stages = 48 KiB`."""
    one, word = tile.least, " at least" if tile.bytes is None else ""
    if padded and tile.layout is not None and tile.layout.bytes > one:
        one, word = tile.layout.bytes, " with padded rows"
    size = f"{tile.buffer.name}{word} {bytes_text(one)}"
    if tile.stages == 1:
        return size
    return f"{size} × {tile.stages} stages = {bytes_text(one * tile.stages)}"


def _fewer_stages(subject: Subject, alive: list[SharedTile], excess: int) -> tuple[Fix, ...]:
    """The most stages that fit, where one loop's `num_stages` decides them all."""
    loops = _pipelines(subject, alive)
    if len(loops) != 1:
        return ()
    (loop,) = loops
    now = as_int(loop.annotations["num_stages"]) or 0
    for stages in range(now - 1, 0, -1):
        saved = sum(_one_version(t) * (now - stages) for t in alive if t.stages == now)
        if saved >= excess:
            edit = keyword_edit(loop.span, subject.text, "num_stages", stages)
            return () if edit is None else (Fix(f"Use num_stages={stages}", (edit,)),)
    return ()


def _pipelines(subject: Subject, alive: list[SharedTile]) -> list[Loop]:
    """The loops whose stages multiply some of the tiles."""
    loops: dict[int, Loop] = {}
    for buffer, (_, inside) in pipeline_stages(subject).items():
        if any(t.buffer is buffer and t.stages > 1 for t in alive):
            loops |= {id(loop): loop for loop in inside}
    return list(loops.values())


def _one_version(tile: SharedTile) -> int:
    return tile.least if tile.layout is None else tile.layout.bytes
