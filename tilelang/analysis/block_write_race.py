"""block-write-race: blocks of the grid that write different values to the same elements of a tensor."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.block_dependence import UNKNOWN, GlobalWrite, global_writes
from tilelang.analysis.block_waits import behind_waits
from tilelang.analysis.subject import Subject, soften
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.order import BLOCK_SET_RACE, BLOCK_UPDATE_RACE, BLOCK_WRITE_RACE
from tilelang.ir.tile_program import Evaluate, Launch, OpRecord, walk
from tilelang.ir.values import Buffer, Unknown, as_int
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
    update = _update_of(subject, write) if rows else None
    if update is None:
        return
    problem = BLOCK_SET_RACE.at(
        write.span,
        related=(Related(update.span, "the update"), *declared(write.buffer)),
        var=rows[0].name,
        buffer=write.buffer.name,
        op=update.value("callee", f"T.atomic_{update.value('kind')}"),
    )
    yield soften(problem, write.context)


def _update_of(subject: Subject, write: GlobalWrite) -> OpRecord | None:
    """The first operation that adds to the elements of a write, by any block."""
    updates = subject.shared(_updates).get(write.buffer, {})
    if [str(e) for e in write.extents] == [str(n) for n in write.buffer.shape]:
        return next(iter(updates.values()), None)
    return updates.get(tuple(map(str, write.starts)))


def _updates(subject: Subject) -> dict[Buffer, dict[tuple[str, ...], OpRecord]]:
    """The first atomic operation at each place of each tensor, those that may be absent left out."""
    found: dict[Buffer, dict[tuple[str, ...], OpRecord]] = {}
    for record in subject.records:
        region = record.region("dst") if record.op == "atomic" else None
        if region is None or record.value("kind") in ("load", "store") or record.context.maybe:
            continue
        found.setdefault(region.buffer, {}).setdefault(tuple(map(str, region.starts)), record)
    return found


def _calls_any(subject: Subject, words: tuple[str, ...]) -> bool:
    calls = (n for n in walk(subject.program.body) if isinstance(n, Evaluate))
    return any(w in str(c.value) for c in calls for w in words)


def _all_wait(subject: Subject) -> bool:
    return _calls_any(subject, ("sync_grid",))
