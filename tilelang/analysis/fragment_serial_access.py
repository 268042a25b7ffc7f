"""fragment-serial-access: a serial loop walks a fragment, so every thread runs every iteration."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Edit, Fix, Problem
from tilelang.diagnostics.rules.layout import FRAGMENT_SERIAL_ACCESS, FRAGMENT_SERIAL_ORDER
from tilelang.diagnostics.span import lines_of
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Access, Loop
from tilelang.ir.values import Buffer
from tilelang.ops.operands import declared
from tilelang.ops.source_edits import rename_callee, text_of
from tilelang.parsing import parse

_SERIAL = frozenset({"serial", "unroll", "vectorized"})


def check(subject: Subject) -> Iterator[Problem]:
    """Once per fragment and loop nest."""
    if subject.target.kind == "cpu":
        return
    told: set[tuple[Buffer, Loop]] = set()
    for access in subject.program.accesses:
        fragment = access.buffer
        if fragment.scope != "local.fragment" or fragment.empty or access.context.parallel_vars():
            continue
        loops = _serial_loops(access)
        if not loops or (access.buffer, loops[0]) in told:
            continue
        told.add((access.buffer, loops[0]))
        ordered = _carries(subject, access, loops[0])
        yield (FRAGMENT_SERIAL_ORDER if ordered else FRAGMENT_SERIAL_ACCESS).at(
            access.span,
            related=declared(access.buffer),
            fixes=() if ordered else _fixes(subject, loops),
            buffer=access.buffer.name,
            var=loops[0].vars[0].name,
        )


def _serial_loops(access: Access) -> list[Loop]:
    """The serial loops around the access whose variables index the fragment."""
    used = {v for index in access.indices for v in free_vars(index.start)}
    return [
        loop for loop in access.context.loops if loop.kind in _SERIAL and any(v in used for v in loop.vars)
    ]


def _carries(subject: Subject, access: Access, loop: Loop) -> bool:
    """Whether an iteration of the loop may need what an earlier one wrote: it reads a buffer that the loop
    writes, at another place or at one that is the same in all iterations.
    """
    inside = [a for a in subject.program.accesses if loop in a.context.loops]
    for write in (a for a in inside if a.mode == "write"):
        for read in (a for a in inside if a.mode == "read" and a.buffer is write.buffer):
            places = [[str(i.start) for i in a.indices] for a in (write, read)]
            moves = any(v in free_vars(i.start) for i in write.indices for v in loop.vars)
            if places[0] != places[1] or not moves:
                return True
    return False


def _fixes(subject: Subject, loops: list[Loop]) -> tuple[Fix, ...]:
    edits = [_as_parallel(subject, loop) for loop in loops]
    spelled = [e for e in edits if e is not None]
    return (Fix("Use T.Parallel", tuple(spelled)),) if len(spelled) == len(loops) else ()


def _as_parallel(subject: Subject, loop: Loop) -> Edit | None:
    """`T.serial(n)` or `range(n)` -> `T.Parallel(n)`. A start or a step has no such form."""
    written = text_of(loop.span, subject.text)
    try:
        call = parse(written, mode="eval").body
    except SyntaxError:
        return None
    if not isinstance(call, ast.Call) or len(call.args) != 1 or call.keywords:
        return None
    if isinstance(call.func, ast.Attribute):
        return rename_callee(loop.span, subject.text, "Parallel")
    language = _language(subject)
    if not isinstance(call.func, ast.Name) or call.func.id != "range" or language is None:
        return None
    return rename_callee(loop.span, subject.text, f"{language}.Parallel")


def _language(subject: Subject) -> str | None:
    """How the kernel names the language: `T` in `T.Kernel(...)`."""
    if subject.launch is None:
        return None
    span = subject.launch.span
    lines = lines_of(span, subject.text)
    written = lines[span.line - 1][span.column - 1 :] if 0 < span.line <= len(lines) else ""
    name, dot, rest = written.partition(".")
    return name if dot and name.isidentifier() and rest.startswith("Kernel") else None
