"""block-write-race: blocks of the grid that write different values to the same elements of a tensor."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.block_dependence import UNKNOWN, GlobalWrite, global_writes
from tilelang.analysis.block_waits import behind_waits
from tilelang.analysis.subject import Subject, soften
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.order import BLOCK_SET_RACE, BLOCK_UPDATE_RACE, BLOCK_WRITE_RACE
from tilelang.ir.tile_program import Evaluate, Launch, OpRecord, walk
from tilelang.ir.values import Unknown, as_int
from tilelang.ops.operands import declared

from tvm import ir  # isort: skip


def check(subject: Subject) -> Iterator[Problem]:
    """A place that does not depend on a block variable, values that do. That all blocks write the same is
    permitted, and what only some blocks write is not looked at; nor is what stands behind a place where a
    block may wait for another's flag, as they may write one after the other.
    """
    launch = subject.launch
    if launch is None:
        return
    behind = subject.shared(behind_waits)
    for write in subject.shared(global_writes):
        if write.span in behind:
            continue
        if any(isinstance(s, Unknown) for s in write.starts) or write.context.maybe:
            continue
        if UNKNOWN in write.place | write.condition or (UNKNOWN in write.values and not write.adds):
            continue
        for var, extent in zip(launch.block_vars, launch.grid, strict=False):
            if isinstance(extent, Unknown) or as_int(extent) == 1 or not _races(write, var):
                continue
            rule = BLOCK_UPDATE_RACE if write.updates else BLOCK_WRITE_RACE
            problem = rule.at(
                write.span,
                related=(Related(launch.span, "the grid"), *declared(write.buffer)),
                var=var.name,
                buffer=write.buffer.name,
            )
            yield soften(problem, write.context)
            break
        else:
            yield from _undone(subject, launch, write)


def _races(write: GlobalWrite, var: ir.Var) -> bool:
    """Whether blocks that differ in `var` alone write to one place, and not the same."""
    return var not in write.apart and (var in write.values or write.updates)


def _undone(subject: Subject, launch: Launch, write: GlobalWrite) -> Iterator[Problem]:
    """Elements that all blocks of a row set, and to which they also add: whoever sets them last undoes what
    others have added before. Nobody waits for other blocks in such a kernel.
    """
    if write.condition or write.updates or subject.shared(_all_wait):
        return
    about = write.place | write.values
    pairs = zip(launch.block_vars, launch.grid, strict=False)
    rows = [v for v, e in pairs if not isinstance(e, Unknown) and as_int(e) != 1 and v not in about]
    adds = [r for r in subject.records if _adds_to(r, write)]
    if not rows or not adds:
        return
    problem = BLOCK_SET_RACE.at(
        write.span,
        related=(Related(adds[0].span, "the update"), *declared(write.buffer)),
        var=rows[0].name,
        buffer=write.buffer.name,
        op=adds[0].value("callee", f"T.atomic_{adds[0].value('kind')}"),
    )
    yield soften(problem, write.context)


def _adds_to(record: OpRecord, write: GlobalWrite) -> bool:
    region = record.region("dst") if record.op == "atomic" else None
    if region is None or region.buffer is not write.buffer or record.value("kind") in ("load", "store"):
        return False
    same = [str(s) for s in region.starts] == [str(s) for s in write.starts]
    whole = [str(e) for e in write.extents] == [str(n) for n in write.buffer.shape]
    return (same or whole) and not record.context.maybe


def _calls_any(subject: Subject, words: tuple[str, ...]) -> bool:
    calls = (n for n in walk(subject.program.body) if isinstance(n, Evaluate))
    return any(w in str(c.value) for c in calls for w in words)


def _all_wait(subject: Subject) -> bool:
    return _calls_any(subject, ("sync_grid",))
