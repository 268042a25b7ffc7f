"""local-parallel-index: a private array indexed by a variable that is spread over the threads."""

from __future__ import annotations

from collections.abc import Iterator

from tvm import ir

from tilelang.analysis.subject import Subject, soften
from tilelang.diagnostics.problem import Fix, Problem
from tilelang.diagnostics.rules.scope import LOCAL_PARALLEL_INDEX
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Access
from tilelang.ir.values import Buffer
from tilelang.ops.operands import declared
from tilelang.ops.source_edits import rename_callee


def check(subject: Subject) -> Iterator[Problem]:
    """Once per array; on the CPU one thread runs the whole block, and nothing is wrong."""
    if subject.target.kind == "cpu":
        return
    told: set[Buffer] = set()
    for access in subject.program.accesses:
        buffer = access.buffer
        if buffer.scope != "local" or buffer in told:
            continue
        used = {v for index in access.indices for v in free_vars(index.start)}
        var = next((v for v in access.context.parallel_vars() if v in used), None)
        if var is None:
            continue
        told.add(buffer)
        problem = LOCAL_PARALLEL_INDEX.at(
            access.span,
            related=declared(buffer),
            fixes=_fixes(subject, access, var),
            buffer=buffer.name,
            var=var.name,
            target=subject.target,
        )
        yield soften(problem, access.context)


def _fixes(subject: Subject, access: Access, var: ir.Var) -> tuple[Fix, ...]:
    """A fragment instead, where each iteration has elements of its own; in `t[i // 2]` two share one."""
    alone = any(isinstance(i.start, ir.Var) and i.start.same_as(var) for i in access.indices)
    edit = rename_callee(access.buffer.span, subject.text, "alloc_fragment") if alone else None
    return () if edit is None else (Fix("Allocate it with T.alloc_fragment", (edit,)),)
