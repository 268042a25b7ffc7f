"""slice-out-of-bounds, index-out-of-bounds: elements that are proven to lie outside their buffer.

Shared memory, fragments and private arrays are not guarded: one iteration that leaves them is an error.
Tensors in global memory are guarded (reads give 0, writes are skipped): only an access that is never inside
is worth a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilelang.analysis.subject import Subject, soften
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.bounds import (
    INDEX_CONSTANT_OUT_OF_BOUNDS,
    INDEX_NEVER_IN_BOUNDS,
    INDEX_OUT_OF_BOUNDS,
    SLICE_NEVER_IN_BOUNDS,
    SLICE_OUT_OF_BOUNDS,
)
from tilelang.ir.tile_program import Access, Context, OpRecord
from tilelang.ir.values import Index, Unknown, Value, add, as_int, show
from tilelang.ops.operands import declared
from tilelang.ops.tile_op import RegionAccess

from tvm import ir  # isort: skip

Varying = Mapping[ir.Var, tuple[Value, Value]]


def check_slices(subject: Subject) -> Iterator[Problem]:
    """Regions of tile operations."""
    for record in subject.records:
        for access in subject.accesses(record):
            if not access.region.whole and access.region.fits_rank:
                yield from _region(subject, record, access)


def check_indices(subject: Subject) -> Iterator[Problem]:
    """Single elements. The frontend notes conditions of expressions around them as guards."""
    for access in subject.program.accesses:
        if len(access.indices) != len(access.buffer.shape) or access.buffer.scope == "local.var":
            continue
        for dim, index in enumerate(access.indices):
            yield from _element(subject, access, dim, index)


def _region(subject: Subject, record: OpRecord, access: RegionAccess) -> Iterator[Problem]:
    region, context = access.region, record.context
    for dim, (start, extent) in enumerate(zip(region.starts, access.extents, strict=False)):
        size = region.buffer.shape[dim]
        if any(isinstance(v, Unknown) for v in (start, extent, size)) or _plainly_inside(start, extent, size):
            continue
        span = region.indices[dim].span if region.indices is not None else region.span
        fields = {"buffer": region.buffer.name, "dim": dim, "size": show(size)}
        if region.buffer.scope == "global":
            if _never_inside(subject, start, size, context):
                end = show(subject.prover.simplify(add(start, extent)))
                problem = SLICE_NEVER_IN_BOUNDS.at(
                    span, related=declared(region.buffer), start=show(start), end=end, **fields
                )
                yield soften(problem, context)
            continue
        at_fault = _outside(subject, start, extent, size, context)
        if at_fault is not None:
            problem = SLICE_OUT_OF_BOUNDS.at(
                span,
                related=declared(region.buffer),
                start=show(at_fault),
                end=show(subject.prover.simplify(at_fault + extent)),
                **fields,
            )
            yield soften(problem, context)


def _element(subject: Subject, access: Access, dim: int, index: Index) -> Iterator[Problem]:
    start, size, buffer = index.start, access.buffer.shape[dim], access.buffer
    if isinstance(start, Unknown) or isinstance(size, Unknown) or _plainly_inside(start, 1, size):
        return
    fields = {"index": show(start), "buffer": buffer.name, "dim": dim, "size": show(size)}
    if buffer.scope == "global":
        if _never_inside(subject, start, size, access.context):
            problem = INDEX_NEVER_IN_BOUNDS.at(index.span, related=declared(buffer), **fields)
            yield soften(problem, access.context)
        return
    at_fault = _outside(subject, start, 1, size, access.context)
    if at_fault is not None:
        rule = INDEX_CONSTANT_OUT_OF_BOUNDS if as_int(start) is not None else INDEX_OUT_OF_BOUNDS
        problem = rule.at(index.span, related=declared(buffer), reached=show(at_fault), **fields)
        yield soften(problem, access.context)


def _plainly_inside(start: Value, extent: Value, size: Value) -> bool:
    """The common case of plain numbers, without asking the prover."""
    a, n, d = as_int(start), as_int(extent), as_int(size)
    return a is not None and n is not None and d is not None and a >= 0 and a + n <= d


def _outside(subject: Subject, start: Value, extent: Value, size: Value, context: Context) -> Value | None:
    """A start that some iteration really has and with which [start, start + extent) leaves the dimension."""
    varying: Varying | None = {} if as_int(start) is not None else subject.surely_runs(context)
    if varying is None:
        return None
    prover = subject.prover
    for value in prover.extremes(start, varying):
        if prover.less(size, add(value, extent)) or prover.less(value, 0):
            return value
    return None


def _never_inside(subject: Subject, start: Value, size: Value, context: Context) -> bool:
    """Whether no iteration reaches the dimension. Under conditions nothing is said."""
    if context.guards:
        return False
    prover = subject.prover
    first = prover.at_first(start, subject.ranges)
    low, limit = as_int(first), as_int(size)
    if low is not None and ((limit is not None and 0 <= low < limit) or (limit is None and low == 0)):
        return False  # the first iteration of everything is inside
    return prover.at_least(start, size) is True or prover.less(start, 0) is True
