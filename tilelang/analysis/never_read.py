"""never-read: a tile that costs memory and is never read."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.contents import Touch, histories
from tilelang.analysis.subject import Subject
from tilelang.analysis.unused_result import unused
from tilelang.diagnostics.problem import Fix, Problem
from tilelang.diagnostics.rules.performance import NEVER_READ, NEVER_USED
from tilelang.ops.source_edits import statement_removal


def check(subject: Subject) -> Iterator[Problem]:
    """Silent about incomplete programs: what was not understood may read the tile."""
    if not subject.program.complete:
        return
    reported = {h.buffer for h in subject.shared(unused)}
    for history in subject.shared(histories):
        if history.buffer.role == "output" or history.buffer in reported:
            continue
        if history.buffer.empty:  # it costs nothing
            continue
        if history.escaped or any(t.mode == "read" or _may_return(t) for t in history.touches):
            continue
        rule = NEVER_READ if history.touches else NEVER_USED
        buffer = history.buffer
        edit = None if history.touches else statement_removal(buffer.name_span, buffer.span, subject.text)
        fixes = () if edit is None else (Fix(f"Remove {buffer.name}", (edit,)),)
        yield rule.at(buffer.name_span, fixes=fixes, tags=("unnecessary",), buffer=buffer.name)


def _may_return(touch: Touch) -> bool:
    """Whether the statement may give back what the tile held."""
    return touch.record is not None and touch.record.op == "atomic"
