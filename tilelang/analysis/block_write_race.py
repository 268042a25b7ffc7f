"""block-write-race: blocks of the grid that write different values to the same elements of a tensor."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.block_dependence import UNKNOWN, GlobalWrite, global_writes
from tilelang.analysis.subject import Subject, soften
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.order import BLOCK_UPDATE_RACE, BLOCK_WRITE_RACE
from tilelang.ir.values import Unknown, as_int
from tilelang.ops.operands import declared

from tvm import ir  # isort: skip


def check(subject: Subject) -> Iterator[Problem]:
    """A place that does not depend on a block variable, values that do. That all blocks write the same is
    permitted, and what only some blocks write is not looked at.
    """
    launch = subject.launch
    if launch is None:
        return
    for write in subject.shared(global_writes):
        if any(isinstance(s, Unknown) for s in write.starts) or write.context.maybe:
            continue
        if UNKNOWN in write.place | write.values | write.condition:
            continue
        for var, extent in zip(launch.block_vars, launch.grid, strict=False):
            if isinstance(extent, Unknown) or as_int(extent) == 1 or not _races(write, var):
                continue
            rule = BLOCK_WRITE_RACE if var in write.values else BLOCK_UPDATE_RACE
            problem = rule.at(
                write.span,
                related=(Related(launch.span, "the grid"), *declared(write.buffer)),
                var=var.name,
                buffer=write.buffer.name,
            )
            yield soften(problem, write.context)
            break


def _races(write: GlobalWrite, var: ir.Var) -> bool:
    """Whether blocks that differ in `var` alone write to one place, and not the same."""
    elsewhere = var in write.place or var in write.condition
    return not elsewhere and (var in write.values or write.updates)
