"""misplaced-result: elements of one dimension are written to another block of that dimension.

Rows of A from `bx * 64` on that become rows of C from `by * 64` on, M being the name of both, were read with
the wrong variable. Only block variables count: a loop may well mix all blocks of a dimension into each.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis import block_write_race, grid_order, partly_used
from tilelang.analysis.dimension_names import DimensionNames
from tilelang.analysis.gemm_axes import origin_text
from tilelang.analysis.subject import Subject, soften
from tilelang.analysis.tile_axes import Origin, Written, tile_axes
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.bounds import MISPLACED_RESULT
from tilelang.ir.values import as_int
from tilelang.ops.operands import declared

from tvm import ir  # isort: skip


def check(subject: Subject) -> Iterator[Problem]:
    """The first of a kernel: a wrong variable misplaces all that comes from one tile."""
    if subject.launch is None or len(subject.launch.block_vars) < 2:
        return
    blocks = frozenset(subject.launch.block_vars)
    for written in subject.shared(tile_axes).written:
        source = next((o for o in written.axis or () if _elsewhere(subject, written, o, blocks)), None)
        if source is not None:
            if next(_told(subject), None) is not None:
                return
            problem = MISPLACED_RESULT.at(
                written.span,
                related=declared(source.buffer, written.to.buffer),
                to=origin_text(subject, written.to),
                source=origin_text(subject, source),
            )
            yield soften(problem, written.context)
            return


def _told(subject: Subject) -> Iterator[Problem]:
    """What is said of the grid, or of one place alone."""
    yield from partly_used.check(subject)
    yield from grid_order.check(subject)
    yield from block_write_race.check(subject)


def _elsewhere(subject: Subject, written: Written, source: Origin, blocks: frozenset[ir.Var]) -> bool:
    """Whether both move with the grid, but never together, along one dimension by name."""
    there, here = written.to.start, source.start
    if there is None or here is None or not there.terms or not here.terms:
        return False
    if set(there.terms) & set(here.terms) or not blocks.issuperset([*there.terms, *here.terms]):
        return False
    if all(as_int(subject.ranges.get(v, (0, None))[1]) == 1 for v in (*there.terms, *here.terms)):
        return False  # one block along each: both begin at 0
    names = subject.shared(DimensionNames)
    return names.same(source.buffer, source.dim, written.to.buffer, written.to.dim) is True
