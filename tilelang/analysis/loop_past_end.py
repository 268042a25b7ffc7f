"""loop-past-end: a loop takes steps that begin behind the end of every tensor that it walks.

`T.serial(T.ceildiv(N, 64) + 1)` loads zeros in its last step, or writes nothing. Such steps are told only of
loops whose variable has no other use: not one that counts elements of a tile too, that a condition asks
about, or whose index is shifted (the next tile, loaded ahead).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilelang.analysis import grid_order, mostly_outside, partly_used, wrong_variable
from tilelang.analysis.affine import affine
from tilelang.analysis.global_places import GlobalPlace, global_places
from tilelang.analysis.subject import Subject
from tilelang.analysis.tensor_use import TensorUses, tensor_uses
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.bounds import LOOP_PAST_END
from tilelang.ir.prove import free_vars, operands_of, substitute
from tilelang.ir.tile_program import Bind, Do, Evaluate, For, If, Loop, Store, walk
from tilelang.ir.values import Region, as_int, show
from tilelang.ops.operands import declared

from tvm import ir  # isort: skip

_KINDS = ("serial", "Pipelined", "unroll")


def check(subject: Subject) -> Iterator[Problem]:
    """Each such loop, once. Silent where another rule names the index as the mistake."""
    if subject.launch is None or not subject.program.complete:
        return
    uses = subject.shared(tensor_uses)
    loops = (n for n in walk(subject.launch.body) if isinstance(n, For) and n.loop.kind in _KINDS)
    past = (_past(subject, uses, n) for n in loops if len(n.loop.vars) == 1)
    found = [p for p in past if p is not None]
    if found and not subject.told_by(
        grid_order.check, partly_used.check, mostly_outside.check, wrong_variable.check
    ):
        yield from found


def _past(subject: Subject, uses: TensorUses, node: For) -> Problem | None:
    loop, var = node.loop, node.loop.vars[0]
    if loop in subject.loops_with_jumps or as_int(loop.step) != 1 or any(map(free_vars, loop.mins)):
        return None
    places = [
        p
        for p in subject.shared(global_places)
        if loop in p.context.loops and any(var in free_vars(s) for s in p.starts)
    ]
    if not places or _used_otherwise(subject, node, var, places):
        return None
    beyond = [_steps_beyond(subject, uses, place, loop) for place in places]
    if any(b is None for b in beyond):
        return None
    (dim, outside, count), place = next((b, p) for b, p in zip(beyond, places, strict=True) if b is not None)
    size = place.buffer.shape[dim]
    return LOOP_PAST_END.at(
        loop.span,
        related=declared(place.buffer),
        count=count,
        var=var.name,
        steps="1 begins" if outside == 1 else f"{outside} begin",
        dim=dim,
        buffer=place.buffer.name,
        size=show(size),
        when=uses.given(size),
        does=("writes nothing" if place.writes else "reads zeros")
        if outside == 1
        else ("write nothing" if place.writes else "read zeros"),
    )


def _steps_beyond(
    subject: Subject, uses: TensorUses, place: GlobalPlace, loop: Loop
) -> tuple[int, int, int] | None:
    """(dimension, steps that begin behind it, steps); None where the last step may be inside, or shifted."""
    (var,) = loop.vars
    if place.context.guards or place.context.maybe:
        return None
    found: tuple[int, int, int] | None = None
    for dim, start in enumerate(place.starts):
        if var not in free_vars(start):
            continue
        form, symbols = affine(start), free_vars(place.buffer.shape[dim])
        if form is None or form.constant != 0 or min(form.terms.values()) <= 0:
            return None
        if symbols and not symbols & free_vars(loop.extents[0]):
            return None  # a fixed number of steps may be the right one for the sizes that calls give
        if uses.whole_without(place, dim, var):
            return None  # windows into what comes later
        for other, outside, count in uses.steps_outside(place, dim):
            if outside == 1 and symbols and not _always_beyond(subject, place, dim, loop):
                return None  # `N // 64 + 1` steps are one too many only where 64 divides N
            if other.same_as(var) and 0 < outside < count:
                found = dim, outside, count
    return found


def _always_beyond(subject: Subject, place: GlobalPlace, dim: int, loop: Loop) -> bool:
    """Whether the last step begins behind the dimension for all sizes."""
    (var,), (low,), (extent,) = loop.vars, loop.mins, loop.extents
    last = subject.prover.simplify(substitute(place.starts[dim], {var: low + extent - 1}))
    return subject.prover.at_least(last - place.buffer.shape[dim], 0) is True


def _used_otherwise(subject: Subject, node: For, var: ir.Var, places: list[GlobalPlace]) -> bool:
    """Whether anything but the indices of these places depends on the variable."""
    known = {p.span for p in places}
    for inner in walk(node.body):
        match inner:
            case Bind() | Evaluate():
                if var in free_vars(inner.value):
                    return True
            case If():
                if var in free_vars(inner.condition):
                    return True
            case For():
                bounds = (*inner.loop.mins, *inner.loop.extents)
                if any(var in free_vars(b) for b in bounds):
                    return True
            case Store():
                mine = inner.buffer.scope == "global"
                if not mine and any(var in free_vars(i) for i in inner.indices):
                    return True
                if _outside_of_loads(inner.value, var):
                    return True
            case Do():
                for operand in inner.record.operands.values():
                    value = operand.value
                    if isinstance(value, Region):
                        local = value.buffer.scope != "global"
                        if (local or value.span not in known) and any(
                            var in free_vars(s) for s in value.starts
                        ):
                            return True
                    elif isinstance(value, ir.Expr) and var in free_vars(value):
                        return True
    return any(
        a.buffer.scope != "global" and any(var in free_vars(i.start) for i in a.indices)
        for a in subject.program.accesses
        if node.loop in a.context.loops
    )


def _outside_of_loads(value: Any, var: ir.Var) -> bool:
    """Whether a value depends on the variable but by the elements that it reads."""
    if isinstance(value, ir.TensorLoad):
        return False
    if isinstance(value, ir.Var):
        return value.same_as(var)
    if not isinstance(value, ir.Expr):
        return False
    return any(_outside_of_loads(part, var) for part in operands_of(value))
