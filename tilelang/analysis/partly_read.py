"""partly-read: a tile is loaded whole, but of a dimension only one and the same element is ever read.

The load of the others is work for nothing; a variable of the loop was forgotten in the index: one of
T.Parallel that goes over as many elements, and does not index the tile. Silent about the last element,
tiles with views, dimensions of few elements (pairs, parts of a vector), and where a tile goes anywhere as a
whole.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.contents import Touch, histories
from tilelang.analysis.read_before_write import place_of
from tilelang.analysis.subject import Subject, soften
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.bounds import PARTLY_READ
from tilelang.ir.prove import free_vars
from tilelang.ir.values import as_int

_FEW = 4


def check(subject: Subject) -> Iterator[Problem]:
    """The first read of each such tile."""
    if not subject.program.complete:
        return
    viewed = {b.storage for b in subject.program.buffers if b.view_of is not None}
    for history in subject.shared(histories):
        tile = history.buffer
        reads = [t for t in history.touches if t.mode != "write"]
        loads = [w for w in history.writes if _loads(w)]
        if tile.role is not None or history.escaped or tile in viewed or not reads or not loads:
            continue
        for dim, extent in enumerate(tile.shape):
            size = as_int(extent)
            element = _only(reads, dim)
            if size is None or size < _FEW or element is None or not _fills(loads, dim, size):
                continue
            if element == size - 1:
                continue  # what a running sum has at its end
            if not all(_forgotten(subject, read, size) for read in reads):
                continue
            problem = PARTLY_READ.at(
                place_of(subject, tile, reads[0]),
                related=(Related(loads[0].span, f"{tile.name} is loaded here"),),
                element=element,
                dim=dim,
                tile=tile.name,
                size=size,
                line=loads[0].span.line,
            )
            yield soften(problem, reads[0].context)
            break


def _loads(touch: Touch) -> bool:
    """Whether a write is a copy from a tensor."""
    if touch.record is None or touch.record.op != "copy" or touch.argument != "dst":
        return False
    src = touch.record.region("src")
    return src is not None and src.buffer.scope == "global"


def _fills(loads: list[Touch], dim: int, size: int) -> bool:
    return all(
        w.starts is not None and as_int(w.starts[dim]) == 0 and as_int(w.extents[dim]) == size for w in loads
    )


def _forgotten(subject: Subject, read: Touch, size: int) -> bool:
    """Whether a variable of T.Parallel around a read goes over as many elements without indexing the tile."""
    used = {v for start in read.starts or () for v in free_vars(start)}
    over = (v for v in read.context.parallel_vars() if as_int(subject.ranges.get(v, (0, None))[1]) == size)
    return any(v not in used for v in over)


def _only(reads: list[Touch], dim: int) -> int | None:
    """The one element of a dimension that all reads take, None if there are others, or it is not known."""
    found = {
        as_int(t.starts[dim]) if t.starts is not None and as_int(t.extents[dim]) == 1 else None for t in reads
    }
    return found.pop() if len(found) == 1 else None
