"""fragment-serial-access: a serial loop walks a fragment, so every thread runs every iteration."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Fix, Problem
from tilelang.diagnostics.rules.layout import FRAGMENT_SERIAL_ACCESS
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Access, Loop
from tilelang.ir.values import Buffer
from tilelang.ops.operands import declared
from tilelang.ops.source_edits import rename_callee

_SERIAL = frozenset({"serial", "unroll", "vectorized"})


def check(subject: Subject) -> Iterator[Problem]:
    """Once per fragment and loop nest."""
    if subject.target.kind == "cpu":
        return
    told: set[tuple[Buffer, Loop]] = set()
    for access in subject.program.accesses:
        if access.buffer.scope != "local.fragment" or access.context.parallel_vars():
            continue
        loops = _serial_loops(access)
        if not loops or (access.buffer, loops[0]) in told:
            continue
        told.add((access.buffer, loops[0]))
        yield FRAGMENT_SERIAL_ACCESS.at(
            access.span,
            related=declared(access.buffer),
            fixes=_fixes(subject, loops),
            buffer=access.buffer.name,
            var=loops[0].vars[0].name,
        )


def _serial_loops(access: Access) -> list[Loop]:
    """The serial loops around the access whose variables index the fragment."""
    used = {v for index in access.indices for v in free_vars(index.start)}
    return [
        loop for loop in access.context.loops if loop.kind in _SERIAL and any(v in used for v in loop.vars)
    ]


def _fixes(subject: Subject, loops: list[Loop]) -> tuple[Fix, ...]:
    edits = [rename_callee(loop.span, subject.text, "Parallel") for loop in loops]
    spelled = [e for e in edits if e is not None]
    if len(spelled) != len(loops) or any(not _is_attribute(subject, loop) for loop in loops):
        return ()
    return (Fix("Use T.Parallel", tuple(spelled)),)


def _is_attribute(subject: Subject, loop: Loop) -> bool:
    """Whether the loop is written `T.serial(...)`: a bare `range(...)` names nothing to rename."""
    lines = subject.text.splitlines()
    if not 0 < loop.span.line <= len(lines):
        return False
    return "." in lines[loop.span.line - 1][loop.span.column - 1 :].partition("(")[0]
