"""mostly-outside: half or more of the steps of a loop or grid read only what lies outside a tensor.

Reads outside give zero, so that a frame around a matrix or the last tile of a grid needs no care. But where
every second step finds nothing at all, while the same variable stays inside another tensor, the tensor is
declared too small, or the index takes too large steps.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis import partly_used
from tilelang.analysis.dimension_names import DimensionNames
from tilelang.analysis.global_places import GlobalPlace
from tilelang.analysis.subject import Subject, soften
from tilelang.analysis.tensor_use import TensorUse, TensorUses, tensor_uses
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.bounds import MOSTLY_OUTSIDE
from tilelang.ir.prove import free_vars
from tilelang.ir.values import Value, show
from tilelang.ops.operands import declared

from tvm import ir  # isort: skip


def check(subject: Subject) -> Iterator[Problem]:
    """The first such dimension of each tensor that is only read."""
    if subject.launch is None or not subject.program.complete:
        return
    uses = subject.shared(tensor_uses)
    for use in uses.uses:
        if not use.writes:
            found = next(_outside(uses, use), None)
            if found is not None and not subject.told_by(partly_used.check):
                yield found


def _outside(uses: TensorUses, use: TensorUse) -> Iterator[Problem]:
    for place in use.places:
        if place.context.guards or any(loop in uses.subject.loops_with_jumps for loop in place.context.loops):
            continue
        for dim in range(len(place.starts)):
            for var, outside, count in uses.steps_outside(place, dim):
                # All of them are index-out-of-bounds.
                counts = count > outside >= count - outside and not uses.whole_without(place, dim, var)
                if counts and _comparable(uses, place.buffer.shape[dim], var):
                    other = _inside(uses, use, dim, var)
                    if other is not None:
                        yield soften(_problem(uses, place, dim, var, outside, count, other), place.context)


def _comparable(uses: TensorUses, size: Value, var: ir.Var) -> bool:
    """Whether the sizes that were tried say anything: not where a tensor of any size is walked by a fixed
    number of steps, which may be the right one for the size that calls give.
    """
    symbols = free_vars(size)
    return not symbols or bool(symbols & free_vars(uses.subject.ranges.get(var, (0, None))[1]))


def _inside(uses: TensorUses, use: TensorUse, dim: int, var: ir.Var) -> TensorUse | None:
    """Another tensor along which the variable never leaves. None where a result's size is written otherwise,
    `2 * N` beside `N`: it is padded with zeros on purpose.
    """
    names = uses.subject.shared(DimensionNames)
    for other in uses.uses:
        if other is use:
            continue
        for place in other.places:
            for k in range(len(place.starts)):
                inside = any(v.same_as(var) and not outside for v, outside, _ in uses.steps_outside(place, k))
                if inside and not (other.writes and names.made_of_another(other.buffer, k, use.buffer, dim)):
                    return other
    return None


def _problem(
    uses: TensorUses, place: GlobalPlace, dim: int, var: ir.Var, outside: int, count: int, other: TensorUse
) -> Problem:
    size = place.buffer.shape[dim]
    return MOSTLY_OUTSIDE.at(
        place.spans[dim] if dim < len(place.spans) else place.span,
        related=declared(place.buffer, other.buffer),
        count=count,
        var=var.name,
        outside=outside,
        dim=dim,
        buffer=place.buffer.name,
        size=show(size),
        when=uses.given(size),
        other=other.buffer.name,
    )
