"""Statements that touch no element -> nothing.

In:  a tile function of one or several launches.
Out: the same without loops that run no iteration and without copies, fills, scans and atomics of regions
     without elements; a reduction of nothing is what its kind leaves as it is, or with `clear=False` nothing.
     So a kernel whose option is off (`T.alloc_fragment((0,), ...)`) is lowered like one without that part.
Not: extents that are known only when the kernel runs; T.gemm, which the check refuses; T.tma_copy, whose
     barrier counts its arrival.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.ir.folds import identity
from tilelang.ops.fill import Fill
from tilelang.ops.reduce import Reduce
from tilelang.passes.walk import calls, children, constant, remake, with_body

_ELEMENTWISE = (tile_ops.COPY, tile_ops.FILL, tile_ops.SCAN, tile_ops.ATOMIC_TILE)


def drop_empty(func: X.PrimFunc) -> X.PrimFunc:
    """Apply the pass."""
    body = _kept(func.body)
    return func if body is not None and body.same_as(func.body) else func.with_body(tile_ops.seq([body]))


def _kept(stmt: Any) -> Any:
    """The statement without what does nothing; None if nothing is left."""
    if isinstance(stmt, X.For):
        count = constant(stmt.extent)
        if count is not None and count <= 0:  # what is known in such a body contradicts itself
            return None
        body = _kept(stmt.body)
        if body is None:
            return None
        return stmt if body.same_as(stmt.body) else with_body(stmt, body)
    if isinstance(stmt, X.SeqStmt):
        made = [_kept(s) for s in stmt.seq]
        if all(m is not None and m.same_as(s) for m, s in zip(made, stmt.seq, strict=True)):
            return stmt
        return None if all(m is None for m in made) else tile_ops.seq(made)
    if isinstance(stmt, X.IfThenElse) and not any(tile_ops.is_ours(c) for c in calls(stmt.condition)):
        branches = [_kept(s) for s in children(stmt)]
        if all(b is None for b in branches):
            return None
        if all(b is not None and b.same_as(s) for b, s in zip(branches, children(stmt), strict=True)):
            return stmt
        orelse = branches[1] if len(branches) > 1 else None
        return X.IfThenElse(stmt.condition, tile_ops.seq(branches[:1]), orelse, stmt.span)
    if isinstance(stmt, X.Evaluate):
        return _operation(stmt)
    return remake(stmt, _kept)


def _operation(stmt: X.Evaluate) -> Any:
    if tile_ops.is_call(stmt.value, tile_ops.REDUCE):
        reduce = Reduce.read(stmt.value)
        if _empty(reduce.dst):
            return None
        if not _empty(reduce.src):
            return stmt
        start = identity(reduce.kind, str(reduce.dst.source.dtype))
        return Fill(reduce.dst, start, reduce.span).call() if reduce.clear else None
    if any(tile_ops.is_call(stmt.value, name) for name in _ELEMENTWISE):
        regions = [a for a in stmt.value.args if hasattr(a, "region")]
        return None if any(_empty(r) for r in regions) else stmt
    return stmt


def _empty(region: Any) -> bool:
    return any(constant(r.extent) == 0 for r in region.region)
