"""Loops over more than the tensors that they write: iterations that would write nothing are dropped.

In:  a tile function, before anything is lowered.
Out: the same, where `for j in T.Parallel(256): B[j] = f[j]` with 128 elements in B counts to 128. Such a
     loop does nothing but store to global tensors and update them, at places that are `j` and a constant
     along some dimension of constant size. What the dropped iterations would have read may not exist, and
     for a fragment there would be no thread that holds it.
Not: loops whose places depend on blocks or other loops too: those stores are guarded (see `guard_bounds`).
"""

from __future__ import annotations

from typing import Any

from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.ir.build import LOOP_KIND
from tilelang.ir.idle_iterations import Place, writing_iterations
from tilelang.ops.atomic import Atomic
from tilelang.passes.walk import calls, constant, loop_kind, remake, walk

_KINDS = frozenset({"Parallel", "serial", "unroll", "vectorized"})


def trim_loops(func: X.PrimFunc) -> X.PrimFunc:
    """Apply the pass."""
    return func.with_body(_trimmed(func.body), func.span)


def _trimmed(stmt: Any) -> Any:
    stmt = remake(stmt, _trimmed)
    if loop_kind(stmt) not in _KINDS or set(map(str, stmt.annotations)) != {LOOP_KIND}:
        return stmt
    count, first, step = constant(stmt.extent), constant(stmt.min), stmt.step
    if count is None or first != 0 or (step is not None and constant(step) != 1):
        return stmt
    places = _written(stmt.body)
    needed = count if places is None else writing_iterations(stmt.loop_var, places, count)
    if not 0 < needed < count:
        return stmt
    extent, notes = X.const(needed, str(stmt.extent.ty)), dict(stmt.annotations.items())
    return X.For(stmt.loop_var, stmt.min, extent, stmt.kind, stmt.body, annotations=notes, span=stmt.span)


def _written(body: Any) -> list[Place] | None:
    """The elements of global tensors that the statements write; None if they do anything else."""
    found: list[Place] = []
    for stmt in walk(body):
        if isinstance(stmt, X.SeqStmt | X.For):
            continue
        if isinstance(stmt, X.IfThenElse) and not calls(stmt.condition):
            continue
        if isinstance(stmt, X.BufferStore) and stmt.buffer.scope() == "global":
            found.append((stmt.buffer.shape, stmt.indices))
        elif isinstance(stmt, X.Evaluate) and tile_ops.is_call(stmt.value, tile_ops.ATOMIC):
            op = Atomic.read(stmt.value)
            if op.dst.source.scope() != "global":
                return None
            found.append((op.dst.source.shape, op.dst.indices))
        elif not isinstance(stmt, X.Bind) or calls(stmt.value):
            return None
    return found
