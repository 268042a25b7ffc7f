"""guarded-tail: where a tile may reach past a tensor, so that the compiler guards it."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.affine import always_inside
from tilelang.analysis.bounds import farthest_start
from tilelang.analysis.global_places import GlobalPlace, global_places
from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.bounds import GUARDED_TAIL
from tilelang.ir.prove import free_vars
from tilelang.ir.values import Buffer, add, as_int, show
from tilelang.ops.operands import declared

from tvm import tirx as X  # isort: skip


def check(subject: Subject) -> Iterator[Problem]:
    """Once per tensor and direction. What stands under a condition was guarded by the author."""
    told: set[tuple[Buffer, bool]] = set()
    for place in subject.shared(global_places):
        key = place.buffer, place.writes
        if key in told or place.context.guards or place.context.maybe:
            continue
        ends = [dim for dim in range(len(place.starts)) if _may_reach_past(subject, place, dim)]
        if ends:
            told.add(key)
            yield _problem(subject, place, ends)


def _may_reach_past(subject: Subject, place: GlobalPlace, dim: int) -> bool:
    """Whether a tail is neither excluded nor the whole: it begins inside and is not proven to end there."""
    start, extent, size = place.starts[dim], place.extents[dim], place.buffer.shape[dim]
    if any(X.is_buffer_var(v) for v in free_vars(start)):
        return False  # an element chosen by memory is no tail
    if always_inside(subject.ranges, start, extent, size):
        return False
    if as_int(size) is not None and as_int(extent) is not None:
        worst = farthest_start(subject, start, extent, size, place.context)
        if worst is not None:
            return worst > 0
    return not subject.prover.surely_at_most(add(start, extent), size)


def _problem(subject: Subject, place: GlobalPlace, ends: list[int]) -> Problem:
    return GUARDED_TAIL.at(
        place.spans[ends[0]] if place.spans else place.span,
        related=declared(place.buffer),
        region=place.text,
        ends=" and ".join(_end(subject, place, dim) for dim in ends),
        outside="is not written" if place.writes else "reads as 0",
    )


def _end(subject: Subject, place: GlobalPlace, dim: int) -> str:
    """`dimension 0 (256), up to 1023`: with the last index where all sizes are known."""
    start, extent, size = place.starts[dim], place.extents[dim], place.buffer.shape[dim]
    text = f"dimension {dim} ({show(size)})"
    count = as_int(extent)
    if as_int(size) is None or count is None:
        return text
    worst = farthest_start(subject, start, extent, size, place.context)
    return text if worst is None else f"{text}, up to {worst + count - 1}"
