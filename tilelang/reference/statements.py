"""What stands in a statement: the operations it calls, the variables it uses."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir
from tvm import tirx as X

from tilelang.ir import thread_ops, tile_ops


def call_names(stmt: Any) -> set[str]:
    """The operations that are called in `stmt`."""
    found: list[ir.Call] = []
    tvm_ffi.structural_walk(stmt, (ir.Call, found.append))
    return {thread_ops.call_name(c) for c in found}


def updates_by_each(stmt: Any) -> bool:
    """Whether an atomic stands outside of Parallel loops, where every thread does it."""
    match stmt:
        case X.For():
            return stmt.kind != X.ForKind.PARALLEL and updates_by_each(stmt.body)
        case X.SeqStmt():
            return any(map(updates_by_each, stmt.seq))
        case X.IfThenElse():
            return any(updates_by_each(s) for s in (stmt.then_case, stmt.else_case) if s is not None)
        case X.While() | X.AttrStmt():
            return updates_by_each(stmt.body)
        case X.Bind() | X.Evaluate():
            return thread_ops.call_name(stmt.value) == tile_ops.ATOMIC
    return False


def waits(stmt: Any) -> bool:
    """Whether threads wait in `stmt` for what others do."""
    return "tl.mbarrier_wait" in call_names(stmt)


def uses(stmt: Any, variables: list[Any]) -> bool:
    """Whether any of the variables stands in `stmt`."""
    wanted = {v.__chandle__() for v in variables}
    found: list[int] = []
    tvm_ffi.structural_walk(stmt, (ir.Var, lambda v: found.append(v.__chandle__())))
    return bool(wanted & set(found))
