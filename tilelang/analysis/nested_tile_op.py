"""nested-tile-op: a tile operation, which all threads carry out together, inside a loop spread over them."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.subject import PRIVATE_SCOPES, Subject, soften
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.order import NESTED_TILE_OP
from tilelang.ir.tile_program import OpRecord


def check(subject: Subject) -> Iterator[Problem]:
    """Operations on private arrays, and copies of single elements, are ordinary thread code."""
    for record in subject.records:
        loop = next((x for x in record.context.loops if x.kind == "Parallel"), None)
        if loop is None or _is_thread_code(subject, record):
            continue
        problem = NESTED_TILE_OP.at(
            record.callee_span, related=(Related(loop.span, "the parallel loop"),), op=record.op
        )
        yield soften(problem, record.context)


def _is_thread_code(subject: Subject, record: OpRecord) -> bool:
    regions = [a.region for a in subject.accesses(record)]
    return (
        not regions
        or all(r.is_point for r in regions)
        or all(r.buffer.scope in PRIVATE_SCOPES for r in regions)
    )
