"""nested-tile-op: a tile operation, which all threads carry out together, inside a loop spread over them."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.subject import PRIVATE_SCOPES, Subject, soften
from tilelang.diagnostics.problem import Fix, Problem, Related
from tilelang.diagnostics.rules.order import NESTED_TILE_OP
from tilelang.ir.tile_program import Loop, OpRecord
from tilelang.ops.source_edits import argument_of, rename_callee


def check(subject: Subject) -> Iterator[Problem]:
    """Operations on private arrays, and copies of single elements, are ordinary thread code."""
    for record in subject.records:
        loop = next((x for x in record.context.loops if x.kind == "Parallel"), None)
        if loop is None or _is_thread_code(subject, record):
            continue
        problem = NESTED_TILE_OP.at(
            record.callee_span,
            related=(Related(loop.span, "the parallel loop"),),
            fixes=_serial(subject, loop),
            op=record.called,
        )
        yield soften(problem, record.context)


def _is_thread_code(subject: Subject, record: OpRecord) -> bool:
    regions = [a.region for a in subject.accesses(record)]
    return (
        not regions
        or all(r.is_point for r in regions)
        or all(r.buffer.scope in PRIVATE_SCOPES for r in regions)
    )


def _serial(subject: Subject, loop: Loop) -> tuple[Fix, ...]:
    """One iteration after the other, for a loop over one variable that holds nothing but tile operations."""
    elements = any(loop in access.context.loops for access in subject.program.accesses)
    nested = any(
        loop in r.context.loops and sum(x.kind == "Parallel" for x in r.context.loops) > 1
        for r in subject.records
    )
    edit = rename_callee(loop.span, subject.text, "serial")
    sizes = argument_of(loop.span, subject.text, 1, "")
    if elements or nested or edit is None or sizes is not None or len(loop.vars) != 1 or loop.annotations:
        return ()
    return (Fix("Use T.serial", (edit,)),)
