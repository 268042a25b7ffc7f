"""`break` and `continue` without jumps, which TVM's LLVM emission lacks: a flag per loop, tested by what
would be skipped.

In:  the statements of a tile function.
Out: the same without Break and Continue. A loop that had one keeps counting to its end with an empty body.
"""

from __future__ import annotations

from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.ir.tile_ops import seq
from tilelang.passes.walk import with_body
from tilelang.targets.cpu.nests import REGISTERS, index

_RUNNING, _SKIPPING, _LEFT = 0, 1, 2


def without_jumps(stmt: Any) -> Any:
    """`stmt` with every loop that is left early rewritten."""
    match stmt:
        case X.SeqStmt():
            return seq([without_jumps(s) for s in stmt.seq])
        case X.AttrStmt():
            return X.AttrStmt(stmt.node, stmt.attr_key, stmt.value, without_jumps(stmt.body), stmt.span)
        case X.IfThenElse():
            orelse = without_jumps(stmt.else_case) if stmt.else_case is not None else None
            return X.IfThenElse(stmt.condition, without_jumps(stmt.then_case), orelse, stmt.span)
        case X.For() | X.While():
            return _loop(stmt)
    return stmt


def _loop(loop: Any) -> Any:
    body = without_jumps(loop.body)
    if not _jumps(body):
        return with_body(loop, body)
    state = X.decl_buffer((1,), "int32", "jump", scope=REGISTERS)
    body = seq([_set(state, _RUNNING, loop.span), _guarded(body, state)])
    still = X.LT(X.BufferLoad(state, [index(0)]), index(_LEFT))
    if isinstance(loop, X.While):
        made: Any = X.While(X.And(still, loop.condition), body, loop.span)
    else:
        made = with_body(loop, X.IfThenElse(still, body, None, loop.span))
    return seq([X.AllocBuffer(state, span=loop.span), _set(state, _RUNNING, loop.span), made])


def _guarded(stmt: Any, state: ir.Var) -> Any:
    """`stmt` with its jumps as stores to `state`, and what follows one under a test of it."""
    match stmt:
        case X.Break():
            return _set(state, _LEFT, stmt.span)
        case X.Continue():
            return _set(state, _SKIPPING, stmt.span)
        case X.SeqStmt():
            return _guarded_sequence(list(stmt.seq), state)
        case X.IfThenElse():
            orelse = _guarded(stmt.else_case, state) if stmt.else_case is not None else None
            return X.IfThenElse(stmt.condition, _guarded(stmt.then_case, state), orelse, stmt.span)
        case X.AttrStmt():
            return X.AttrStmt(stmt.node, stmt.attr_key, stmt.value, _guarded(stmt.body, state), stmt.span)
    return stmt


def _guarded_sequence(stmts: list[Any], state: ir.Var) -> Any:
    for k, stmt in enumerate(stmts):
        if _jumps(stmt):
            rest = stmts[k + 1 :]
            running = X.EQ(X.BufferLoad(state, [index(0)]), index(_RUNNING))
            after = [X.IfThenElse(running, _guarded_sequence(rest, state), None, stmt.span)] if rest else []
            return seq([*stmts[:k], _guarded(stmt, state), *after])
    return seq(stmts)


def _jumps(stmt: Any) -> bool:
    """Whether `stmt` may leave the loop around it (inner loops have been rewritten already)."""
    match stmt:
        case X.Break() | X.Continue():
            return True
        case X.SeqStmt():
            return any(_jumps(s) for s in stmt.seq)
        case X.IfThenElse():
            return _jumps(stmt.then_case) or (stmt.else_case is not None and _jumps(stmt.else_case))
        case X.AttrStmt():
            return _jumps(stmt.body)
    return False


def _set(state: ir.Var, value: int, span: Any) -> Any:
    return X.BufferStore(state, index(value), [index(0)], span)
