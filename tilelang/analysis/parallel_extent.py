"""parallel-extent: one loop updates only a part of a fragment that everything else in the kernel uses whole.

Not: parts that are filled rather than updated (padding), tiles of which several statements use a part, loops
under conditions, and what is not known in numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilelang.analysis.contents import History, Touch, histories
from tilelang.analysis.coverage import ranges_text, span_of
from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.scope import PARALLEL_EXTENT
from tilelang.ir.values import Buffer, as_int
from tilelang.ops.operands import declared

_LARGEST = 1 << 12  # elements of a dimension


def check(subject: Subject) -> Iterator[Problem]:
    """In-place updates by T.Parallel: `f[i] = f[i] * 2` over fewer rows than f has."""
    if not subject.program.complete:
        return
    viewed = {b.storage for b in subject.program.buffers if b.view_of is not None}
    for history in subject.shared(histories):
        buffer = history.buffer
        if buffer.scope != "local.fragment" or history.escaped or buffer in viewed:
            continue
        if not any(_leaves_out(buffer, touch) for touch in history.touches):
            continue  # nearly always, and what follows is slow
        found = _partial_update(subject, history)
        if found is not None:
            touch, dim, covered = found
            loop = touch.context.loops[-1]
            yield PARALLEL_EXTENT.at(
                loop.span,
                related=declared(buffer),
                part=ranges_text(covered),
                dim=dim,
                buffer=buffer.name,
                size=len(covered),
                line=touch.span.line,
            )


def _partial_update(subject: Subject, history: History) -> tuple[Touch, int, np.ndarray] | None:
    """The only statement that uses a part, with the dimension and what it covers there."""
    partial: list[tuple[Touch, int, np.ndarray]] = []
    for touch in history.touches:
        covered = _covered(subject, history, touch)
        if covered is None or touch.context.guards or touch.context.maybe:
            return None
        left_out = next((d for d, c in enumerate(covered) if not c.all()), None)
        if left_out is not None:
            partial.append((touch, left_out, covered[left_out]))
    if len({t.order for t, _, _ in partial}) != 1 or {t.mode for t, _, _ in partial} != {"read", "write"}:
        return None
    first = partial[0][0]
    plain = all(t.starts is not None and _own_variables(t) for t, _, _ in partial)
    elsewhere = any(t.mode != "write" and t.order != first.order for t in history.touches)
    return partial[0] if plain and elsewhere else None


def _leaves_out(buffer: Buffer, touch: Touch) -> bool:
    """Whether the T.Parallel loop right around a statement may not walk all of the fragment."""
    if touch.starts is None or not _own_variables(touch):
        return False
    loop = touch.context.loops[-1]
    low = dict(zip(loop.vars, loop.mins, strict=False))
    extents = dict(zip(loop.vars, loop.extents, strict=False))
    for start, size in zip(touch.starts, buffer.shape, strict=False):
        var = next((v for v in loop.vars if v.same_as(start)), None)
        if var is None or as_int(low[var]) != 0 or as_int(extents[var]) != as_int(size):
            return True
    return False


def _own_variables(touch: Touch) -> bool:
    """Each index is a variable of the T.Parallel loop right around, and no two are the same."""
    loops = touch.context.loops
    if not loops or loops[-1].kind != "Parallel" or touch.record is not None:
        return False
    starts = touch.starts or ()
    names = [v for v in loops[-1].vars if any(v.same_as(s) for s in starts if as_int(s) is None)]
    return len(names) == len(starts)


def _covered(subject: Subject, history: History, touch: Touch) -> list[np.ndarray] | None:
    """Per dimension which coordinates a statement touches, None where that is not exactly known."""
    if touch.starts is None:
        return None
    found = []
    for start, extent, dim in zip(touch.starts, touch.extents, history.buffer.shape, strict=False):
        size = as_int(dim)
        if size is None or size > _LARGEST:
            return None
        part = span_of(subject, touch.context, start, extent)
        if part is None or not part.whole or not part.sure:
            return None
        coordinates = np.zeros(size, bool)
        for first, count in part.pieces:
            coordinates[max(0, first) : max(0, first + count)] = True
        found.append(coordinates)
    return found
