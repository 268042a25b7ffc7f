"""pipelined-write-after-read: a pipelined tile is used before the same iteration refills it."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.contents import History, Touch, histories
from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Fix, Problem, Related
from tilelang.diagnostics.rules.order import PIPELINED_WRITE_AFTER_READ
from tilelang.ir.tile_program import Context, For, Loop, walk
from tilelang.ir.values import as_int
from tilelang.ops.source_edits import keyword_edit


def check(subject: Subject) -> Iterator[Problem]:
    """In loops with two stages or more: a copy from global memory behind a read of its destination, which may
    stand under a condition.
    """
    loops = [
        n.loop
        for n in walk(subject.program.body)
        if isinstance(n, For)
        and n.loop.kind == "Pipelined"
        and (as_int(n.loop.annotations.get("num_stages", 0)) or 0) >= 2
    ]
    for history in subject.shared(histories):
        if history.buffer.scope == "shared" and not history.escaped:
            for loop in loops:
                yield from _in_loop(subject, history, loop)


def _in_loop(subject: Subject, history: History, loop: Loop) -> Iterator[Problem]:
    inside = [t for t in history.touches if any(x is loop for x in t.context.loops)]
    if not inside or any(t.context.maybe for t in inside):
        return
    first = inside[0]
    refill = next((t for t in inside if _is_load(t)), None)
    if first.mode != "read" or refill is None or not _is_statement_of(loop, refill.context):
        return
    edit = keyword_edit(loop.span, subject.text, "num_stages", 0)
    yield PIPELINED_WRITE_AFTER_READ.at(
        refill.record.span if refill.record is not None else refill.span,
        fixes=() if edit is None else (Fix("Use num_stages=0", (edit,)),),
        related=(
            Related(first.span, f"{history.buffer.name} is read here"),
            Related(loop.span, "in this loop"),
        ),
        buffer=history.buffer.name,
        line=first.span.line,
    )


def _is_statement_of(loop: Loop, context: Context) -> bool:
    """Whether a statement stands in the body of a loop itself, not in a loop or a branch of it."""
    around = len(context.loops)
    return context.loops[-1] is loop and all(g.depth is not None and g.depth < around for g in context.guards)


def _is_load(touch: Touch) -> bool:
    if touch.mode != "write" or touch.record is None or touch.record.op != "copy":
        return False
    src = touch.record.region("src")
    return src is not None and src.buffer.scope == "global"
