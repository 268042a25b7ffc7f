"""unused-result: a tile is loaded or computed, but nothing that the kernel writes depends on it.

The statement that used it is missing, or names another tile. Tiles that are only filled are never-read.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.contents import History, histories
from tilelang.analysis.dataflow import Flow, dataflow, mentioned_elsewhere
from tilelang.analysis.subject import Subject, is_tile
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.order import UNUSED_RESULT, UNUSED_UPDATE, UNUSED_VARIABLE
from tilelang.ir.values import Buffer


def check(subject: Subject) -> Iterator[Problem]:
    """The last of each chain of tiles that lead nowhere."""
    for history in subject.shared(unused):
        flow = subject.shared(dataflow)
        write = history.writes[-1]
        alone = flow.readers(history.buffer) <= {history.buffer}
        others = sorted(b.name for b in flow.reached_from(history.buffer) if isinstance(b, Buffer))
        rule = UNUSED_RESULT if not others else UNUSED_UPDATE
        yield rule.at(
            history.buffer.name_span,
            related=(Related(write.span, "written here"),),
            tags=("unnecessary",),
            buffer=history.buffer.name,
            line=write.span.line,
            whom="itself" if alone else " and ".join(others),
        )


def check_variables(subject: Subject) -> Iterator[Problem]:
    """Scalar variables that are assigned and whose name is never read."""
    if not subject.program.complete:
        return
    read = {buffer for _, buffer in (*subject.program.uses, *subject.program.handed_on)}
    read |= {a.buffer for a in subject.program.accesses if a.mode != "write"}
    told: set[Buffer] = set()
    for access in subject.program.accesses:
        buffer = access.buffer
        if buffer.scope != "local.var" or buffer in read or buffer in told or access.context.maybe:
            continue
        told.add(buffer)
        yield UNUSED_VARIABLE.at(
            buffer.name_span,
            related=(Related(access.span, "set here"),),
            tags=("unnecessary",),
            buffer=buffer.name,
            line=access.span.line,
        )


def unused(subject: Subject) -> list[History]:
    """Tiles of data that reach no result, without those that others of them are made of.

    None where the kernel has no result at all, is not understood as a whole, or may use the tile in a branch
    that its values do not take.
    """
    if not subject.program.complete:
        return []
    flow = subject.shared(dataflow)
    if not flow.has_result:
        return []
    found: list[History] = []
    for history in subject.shared(histories):
        tile = history.buffer
        if (
            tile in flow.live
            or tile.role is not None
            or tile.empty
            or not is_tile(tile)
            or not _holds_data(history, flow)
        ):
            continue
        behind = flow.reached_from(tile)
        if any(tile not in flow.reached_from(b) for b in behind if b is not tile):
            continue  # what is made of it is reported
        if any(h.buffer in behind for h in found) or mentioned_elsewhere(subject, tile):
            continue
        found.append(history)
    return found


def _holds_data(history: History, flow: Flow) -> bool:
    """Whether something other than constants is written to it."""
    made_of = flow.sources.get(history.buffer, set()) - {history.buffer}
    return bool(made_of) and bool(history.writes)
