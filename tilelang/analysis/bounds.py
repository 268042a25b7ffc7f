"""slice-out-of-bounds, index-out-of-bounds: elements that are proven to lie outside their buffer.

Shared memory, fragments and private arrays are not guarded: one iteration that leaves them is an error.
Tensors in global memory are guarded (reads give 0, writes are skipped): only an access that is never inside
is worth a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tilelang.analysis.affine import affine, always_inside
from tilelang.analysis.covered_reads import Use, depends_on_sizes, sizes_in, uses_of_element, uses_of_region
from tilelang.analysis.iterations import Iterations, iterations, variables_behind
from tilelang.analysis.open_sizes import given_sizes
from tilelang.analysis.subject import Subject, soften
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.bounds import (
    INDEX_CONSTANT_OUT_OF_BOUNDS,
    INDEX_NEVER_IN_BOUNDS,
    INDEX_OUT_OF_BOUNDS,
    SLICE_NEVER_IN_BOUNDS,
    SLICE_OUT_OF_BOUNDS,
)
from tilelang.ir.evaluate import NotEvaluable
from tilelang.ir.tile_program import Access, Context, OpRecord
from tilelang.ir.values import Index, Unknown, Value, add, as_int, show
from tilelang.ops.operands import declared
from tilelang.ops.tile_op import RegionAccess

from tvm import ir  # isort: skip

_LARGE_SIZE = 1 << 16  # of a tensor whose size is not known before a call
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
        if region.buffer.scope == "global":
            if as_int(size) == 0:  # an empty argument: that nothing is read or written is what is wanted
                continue
            rule = SLICE_NEVER_IN_BOUNDS
            at_fault = start if _never_inside(subject, start, size, context) else None
        else:
            rule = SLICE_OUT_OF_BOUNDS
            at_fault = _outside(subject, start, extent, size, context)
        if at_fault is None:
            continue
        uses, sizes = None, {}
        if region.buffer.scope != "global" and access.mode == "read":
            uses = uses_of_region(subject, record, region, dim)
        if uses is not None:
            needed, sizes = _needed_outside(subject, uses, size)
            if needed is None:
                continue
        problem = rule.at(
            region.indices[dim].span if region.indices is not None else region.span,
            related=declared(region.buffer),
            buffer=region.buffer.name,
            dim=dim,
            size=show(size),
            start=show(at_fault),
            end=show(subject.prover.simplify(add(at_fault, extent))),
        )
        yield soften(given_sizes(problem, sizes) if sizes else problem, context)


def _element(subject: Subject, access: Access, dim: int, index: Index) -> Iterator[Problem]:
    start, size, buffer = index.start, access.buffer.shape[dim], access.buffer
    if isinstance(start, Unknown) or isinstance(size, Unknown) or _plainly_inside(start, 1, size):
        return
    if buffer.scope == "global":
        if as_int(size) == 0:
            return
        rule = INDEX_NEVER_IN_BOUNDS
        at_fault = start if _never_inside(subject, start, size, access.context) else None
    else:
        rule = INDEX_CONSTANT_OUT_OF_BOUNDS if as_int(start) is not None else INDEX_OUT_OF_BOUNDS
        at_fault = _outside(subject, start, 1, size, access.context)
    if at_fault is None:
        return
    uses, sizes = None if buffer.scope == "global" else uses_of_element(subject, access, dim), {}
    if uses is not None:
        at_fault, sizes = _needed_outside(subject, uses, size)
        if at_fault is None:
            return
    problem = rule.at(
        index.span,
        related=declared(buffer),
        index=show(start if index.written is None else index.written),
        buffer=buffer.name,
        dim=dim,
        size=show(size),
        reached=show(at_fault),
    )
    yield soften(given_sizes(problem, sizes) if sizes else problem, access.context)


def _needed_outside(
    subject: Subject, uses: Sequence[Use], size: Value
) -> tuple[int | None, Mapping[ir.Var, int]]:
    """The farthest index outside at which a value is needed, None if there is none, and with which sizes of
    tensors, where it depends on these. What tensors of one element need, all need.
    """
    asked = sizes_in(uses, subject)
    if asked and not any(depends_on_sizes(use, asked) for use in uses):
        smallest = dict.fromkeys(asked, 1)
        at = [found for use in uses if (found := _farthest_needed(subject, use, size, smallest)) is not None]
        if at:
            return max(at, key=abs), {}
    for sizes in ({}, dict.fromkeys(sizes_in(uses, subject), _LARGE_SIZE)):
        at = [found for use in uses if (found := _farthest_needed(subject, use, size, sizes)) is not None]
        if at:
            return max(at, key=abs), sizes
    return None, {}


def _farthest_needed(subject: Subject, use: Use, size: Value, sizes: Mapping[ir.Var, int]) -> int | None:
    """Of the indices outside at which a value is needed the farthest, None if it is needed at none."""
    points = iterations(subject, use.context, (use.start, size), sizes=sizes)
    if points is None or not (points.sure or _leaves_whenever_it_runs(points, use.start, 1, size)):
        return None
    return _farthest(points, use.start, 1, size)


def _plainly_inside(start: Value, extent: Value, size: Value) -> bool:
    """The common case of plain numbers, without asking the prover."""
    a, n, d = as_int(start), as_int(extent), as_int(size)
    return a is not None and n is not None and d is not None and a >= 0 and a + n <= d


def first_value(subject: Subject, start: Value) -> int | None:
    """The start in the first iteration of everything, if that is a number."""
    form = affine(start)
    if form is None:
        return as_int(subject.prover.at_first(start, subject.ranges))
    value = form.constant
    for var, coefficient in form.terms.items():
        first = as_int(subject.ranges[var][0]) if var in subject.ranges else None
        if first is None:
            return None
        value += coefficient * first
    return value


def _outside(subject: Subject, start: Value, extent: Value, size: Value, context: Context) -> Value | None:
    """A start that some iteration really has and with which [start, start + extent) leaves the dimension."""
    if always_inside(subject.ranges, start, extent, size):
        return None
    if as_int(start) is None:
        points = iterations(subject, context, (start, extent, size))
        if points is not None:
            if not points.sure and not _leaves_whenever_it_runs(points, start, extent, size):
                return None
            return _farthest(points, start, extent, size)
    varying: Varying | None = {} if as_int(start) is not None else subject.surely_runs(context)
    if varying is None:
        return None
    prover = subject.prover
    found = [
        value
        for value in prover.extremes(start, varying)
        if prover.less(size, add(value, extent)) or prover.less(value, 0)
    ]
    # The farthest of several says most.
    return max(found, key=lambda v: abs(as_int(v) or 0), default=None)


def _leaves_whenever_it_runs(points: Iterations, start: Value, extent: Value, size: Value) -> bool:
    """Whether conditions that are not known leave no choice: some iteration of the loops inside them leaves
    the dimension, whatever lets these loops run.
    """
    inside = tuple(k for k, v in enumerate(points.variables) if v in points.inner)
    if not inside or not points.whole:
        return False
    try:
        at, count, limit = (points.values(v) for v in (start, extent, size))
    except NotEvaluable:
        return False
    beyond = points.active & ((at < 0) | (at + count > limit))
    leaves, runs = beyond.any(axis=inside), points.active.any(axis=inside)
    return bool(leaves.any() and (leaves | ~runs).all())


def farthest_start(
    subject: Subject, start: Value, extent: Value, size: Value, context: Context
) -> int | None:
    """Of the starts that leave the dimension the one that does so most; None if none does or is known."""
    points = iterations(subject, context, (start, extent, size))
    return None if points is None else _farthest(points, start, extent, size)


def _farthest(points: Iterations, start: Value, extent: Value, size: Value) -> int | None:
    """Of the starts that leave the dimension the one that does so most, None if none does."""
    try:
        at, count, limit = (points.values(v) for v in (start, extent, size))
    except NotEvaluable:
        return None
    beyond = np.where(points.active, np.maximum(-at, at + count - limit), 0)
    worst = int(beyond.argmax())
    return int(at.ravel()[worst]) if beyond.ravel()[worst] > 0 else None


def _runs_with_some_size(subject: Subject, context: Context) -> bool:
    """Whether conditions that ask for the sizes of tensors too let a statement run with large ones."""
    asked = variables_behind(subject, context, ())
    sizes = {s.var: _LARGE_SIZE for s in subject.program.symbols if s.var in asked}
    runs = iterations(subject, context, (), sizes=sizes) if sizes else None
    return runs is not None and runs.sure and bool(runs.active.any())


def _never_inside(subject: Subject, start: Value, size: Value, context: Context) -> bool:
    """Whether no iteration reaches the dimension. Conditions that are no numbers say nothing."""
    prover = subject.prover
    low, limit = first_value(subject, start), as_int(size)
    first_inside = (limit is not None and low is not None and 0 <= low < limit) or (
        limit is None and low == 0
    )
    if first_inside and not context.guards:
        return False  # the first iteration of everything is inside
    if not first_inside and (prover.at_least(start, size) is True or prover.less(start, 0) is True):
        if not context.guards:
            return True
        runs = iterations(subject, context, ())
        if runs is not None and runs.sure and runs.active.any():
            return True  # some iteration passes all conditions, whatever the sizes
        if _runs_with_some_size(subject, context):
            return True
    points = iterations(subject, context, (start, size))
    if points is None or not points.sure or not points.whole or not points.active.any():
        return False
    try:
        at, limits = points.values(start), points.values(size)
    except NotEvaluable:
        return False
    return bool(((at < 0) | (at >= limits))[points.active].all())
