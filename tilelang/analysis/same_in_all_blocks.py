"""same-in-all-blocks: blocks that make one and the same product, each writing it elsewhere.

A block variable that places a result and is nowhere in what is computed was forgotten in an index of an
input: nobody multiplies the same tiles anew for each copy. Results that are no products are left alone: a row
or a constant is spread over blocks on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis import misplaced_result, partly_used
from tilelang.analysis.block_dependence import PRODUCT, UNKNOWN, GlobalWrite, global_writes
from tilelang.analysis.dimension_names import DimensionNames
from tilelang.analysis.global_places import global_places
from tilelang.analysis.subject import Subject, soften
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.bounds import SAME_IN_ALL_BLOCKS
from tilelang.ir.prove import free_vars
from tilelang.ir.values import Unknown, as_int
from tilelang.ops.operands import declared

from tvm import ir  # isort: skip


def check(subject: Subject) -> Iterator[Problem]:
    """The first such write. Silent where another rule names the index."""
    launch = subject.launch
    if launch is None or not subject.program.complete:
        return
    for write in subject.shared(global_writes):
        computed = write.values | write.condition
        if PRODUCT not in write.values or UNKNOWN in computed | write.place:
            continue
        for var, extent in zip(launch.block_vars, launch.grid, strict=False):
            several = not isinstance(extent, Unknown) and as_int(extent) != 1
            if several and var in write.place and var not in computed and _asked(subject, write, var):
                if subject.told_by(partly_used.check, misplaced_result.check):
                    return
                problem = SAME_IN_ALL_BLOCKS.at(
                    write.span,
                    related=(Related(launch.span, "the grid"), *declared(write.buffer)),
                    var=var.name,
                    buffer=write.buffer.name,
                )
                yield soften(problem, write.context)
                return


def _asked(subject: Subject, write: GlobalWrite, var: ir.Var) -> bool:
    """Whether an input has a dimension that may be the one written along. If none has, one result is spread
    over new copies on purpose.
    """
    names = subject.shared(DimensionNames)
    dims = [
        d
        for d, start in enumerate(write.starts)
        if not isinstance(start, Unknown) and var in free_vars(start)
    ]
    inputs = {place.buffer for place in subject.shared(global_places) if not place.writes}
    return any(
        not names.differ(write.buffer, d, other, k)
        for d in dims
        for other in inputs
        for k in range(len(other.shape))
    )
