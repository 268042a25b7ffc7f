"""Which part of a buffer is written at most, dimension by dimension, in numbers.

A set of coordinates per dimension is what all writes together may reach in it: conditions that are no numbers
are taken to hold, and what cannot be computed counts as everything. So a coordinate outside is certainly
never written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tilelang.analysis.iterations import iterations, ranges_around
from tilelang.analysis.subject import Subject
from tilelang.ir.evaluate import NotEvaluable
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Context
from tilelang.ir.values import Value, as_int

from tvm import ir  # isort: skip

_LONGEST = 1 << 16

Place = tuple[Context, tuple[Value, ...] | None, Sequence[Value]]  # starts None: anywhere


def reached(
    subject: Subject, dim: int, size: int, places: Iterable[Place], sizes: Mapping[ir.Var, int] | None = None
) -> np.ndarray | None:
    """For each coordinate of a dimension of `size` whether a write may reach it; None for all of them."""
    if size > _LONGEST:
        return None
    inside = np.zeros(size, bool)
    for context, starts, extents in places:
        part = None if starts is None else span_of(subject, context, starts[dim], extents[dim], sizes)
        if part is None or not part.whole:
            return None
        for first, count in part.pieces:
            inside[max(0, first) : max(0, first + count)] = True
        if inside.all():
            return None
    return inside


class Pieces:
    """Intervals (first, count) that a statement touches in one dimension; `sure` that it touches them all,
    `whole` that there are no others.
    """

    def __init__(self, pieces: list[tuple[int, int]], sure: bool, whole: bool) -> None:
        self.pieces, self.sure, self.whole = pieces, sure, whole


def span_of(
    subject: Subject,
    context: Context,
    start: Value,
    extent: Value,
    sizes: Mapping[ir.Var, int] | None = None,
) -> Pieces | None:
    """What a statement touches in one dimension, None where that is not known in numbers."""
    first, count = as_int(start), as_int(extent)
    points = iterations(subject, context, (start, extent), sizes=sizes)
    if points is None:
        return None
    if first is not None and count is not None:
        # Conditions may have been computed to fail in every iteration.
        return Pieces([(first, count)] if points.active.any() else [], points.sure, True)
    try:
        at = points.values(start)[points.active]
        if count is None:
            counts = points.values(extent)[points.active]
            pairs = set(zip(at.tolist(), counts.tolist(), strict=True))
            return Pieces(sorted(pairs), points.sure, points.whole)
    except NotEvaluable:
        return None
    return Pieces(_joined(at, count), points.sure, points.whole)


def _joined(firsts: np.ndarray, count: int) -> list[tuple[int, int]]:
    """Intervals of `count` at each of `firsts`, those that meet as one: a tile that is written element by
    element is one interval, not thousands.
    """
    if not firsts.size or count <= 0:
        return []
    ordered = np.sort(firsts, axis=None)
    gaps = np.flatnonzero(np.diff(ordered) > count)
    begins, ends = ordered[[0, *(gaps + 1)]], ordered[[*gaps, -1]] + count
    return [(int(a), int(b - a)) for a, b in zip(begins, ends, strict=True)]


def symbols_behind(subject: Subject, context: Context, values: Iterable[Value]) -> set[ir.Var]:
    """What `values` depend on, through the bounds of loops and blocks, that is no loop, block or thread."""
    ranges = ranges_around(subject, context)
    todo = [v for value in values for v in free_vars(value)]
    seen: set[ir.Var] = set()
    while todo:
        var = todo.pop()
        if var not in seen:
            seen.add(var)
            todo += [v for bound in ranges.get(var, ()) for v in free_vars(bound)]
    return {v for v in seen if v not in ranges}


def ranges_text(coordinates: np.ndarray) -> str:
    """`[64, 128)`, or `[0, 8) and more` for several intervals of True."""
    places = np.flatnonzero(coordinates)
    first = int(places[0])
    breaks = np.flatnonzero(np.diff(places) > 1)
    last = int(places[breaks[0]]) if len(breaks) else int(places[-1])
    return f"[{first}, {last + 1})" + (" and others" if len(breaks) else "")
