"""unused-result, of one statement: what it writes to a tile is overwritten before anything reads it, or the
kernel ends.

The tile is read elsewhere, so that unused-result proper has nothing to say.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tilelang.analysis.contents import History, Touch, histories
from tilelang.analysis.dataflow import dataflow, mentioned_elsewhere
from tilelang.analysis.liveness import Liveness
from tilelang.analysis.subject import Subject, is_tile
from tilelang.analysis.unused_result import unused
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.order import UNREAD_BEFORE_OVERWRITTEN, UNREAD_WRITE
from tilelang.diagnostics.span import Span
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import For, walk
from tilelang.ir.values import Value
from tilelang.ops.operands import declared


def check(subject: Subject) -> Iterator[Problem]:
    """Statements in the kernel's own text whose every run writes in vain.

    Start values are left out, and so are tiles that may be read where these values of the parameters do not
    lead.
    """
    if not subject.program.complete or not subject.shared(dataflow).has_result:
        return
    told = {h.buffer for h in subject.shared(unused)}
    candidates = [h for h in subject.shared(histories) if h.buffer not in told and _followed(h)]
    if not any(h.reads for h in candidates):
        return
    used: set[Span] = set()
    found: list[tuple[History, Touch, frozenset[Touch]]] = []
    for history in candidates:
        liveness = Liveness(subject, history)
        for touch in history.writes:
            after = liveness.after[touch]
            if after.live or _start_value(touch, liveness.stored.get(touch.order)):
                used.add(touch.span)
            else:
                found.append((history, touch, after.killers))
    for history, touch, killers in found:
        read = any(t.mode != "write" for t in history.touches if t.order != touch.order)
        if not read or touch.span in used or not _alone(subject, touch):
            continue
        if _own(subject, touch.span) and not mentioned_elsewhere(subject, history.buffer):
            yield _problem(history, touch, killers)


def _followed(history: History) -> bool:
    tile = history.buffer
    return (
        is_tile(tile)
        and tile.role is None
        and not history.escaped
        and not tile.empty
        and tile.scope != "local.reducer"
        and not any(t.context.maybe or t.starts is None for t in history.touches)
        and not any(t.record is not None and t.record.op == "atomic" for t in history.touches)
    )


def _start_value(touch: Touch, stored: Value) -> bool:
    """Whether a statement only fills with a value that depends on no data."""
    if touch.record is not None:
        return touch.record.op == "fill"
    return not free_vars(stored)


def _alone(subject: Subject, touch: Touch) -> bool:
    """Whether an operation writes nothing else."""
    record = touch.record
    return record is None or sum(a.mode != "read" for a in subject.accesses(record)) == 1


def _own(subject: Subject, span: Span) -> bool:
    """Whether a statement stands in the kernel's text, and in no loop that Python ran through: its last
    round may prepare another one.
    """
    program = subject.program
    if span.path != program.span.path or not program.span.line <= span.line <= program.span.end_line:
        return False
    run_through = subject.shared(_loops_of_python)
    return run_through is not None and not any(first <= span.line <= last for first, last in run_through)


def _loops_of_python(subject: Subject) -> list[tuple[int, int]] | None:
    """The first and last lines of the text's loops that are no loops of the kernel; None without the text."""
    if subject.tree is None:
        return None
    traced = {n.loop.span.line for n in walk(subject.program.body) if isinstance(n, For)}
    loops = (n for n in ast.walk(subject.tree) if isinstance(n, ast.For) and n.iter.lineno not in traced)
    return [(n.lineno, n.end_lineno or n.lineno) for n in loops]


def _problem(history: History, touch: Touch, killers: frozenset[Touch]) -> Problem:
    tile = history.buffer
    ends = min(killers, key=lambda t: t.order, default=None)
    later = next((t for t in sorted(killers, key=lambda t: t.order) if t.order > touch.order), ends)
    related = (
        () if later is None or later is touch else (Related(later.span, f"{tile.name} is overwritten here"),)
    )
    rule = UNREAD_WRITE if later is None or later is touch else UNREAD_BEFORE_OVERWRITTEN
    return rule.at(
        touch.span,
        related=(*related, *declared(tile)),
        tags=("unnecessary",),
        buffer=tile.name,
        line=0 if later is None else later.span.line,
    )
