"""Loops over a part of a fragment as loops over all of it, for where no layout serves the part as it stands.

In:  a tile function whose layouts contradict each other.
Out: each T.Parallel loop that touches one part of one fragment, `f[0:2, 0:1]` or `f[2 * i + 1]`, as a loop
     over the whole fragment with a condition: its iterations run where the fragment's elements are, whatever
     lays these out.
Not: loops that touch fragments in two places, reach atomics or run loops inside, and loops whose layout the
     author chose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir
from tvm import tirx as X

from tilelang.analysis.affine import affine
from tilelang.layout.annotated import LOOP_LAYOUT
from tilelang.passes.accesses import all_accesses
from tilelang.passes.parallel_loop import LoopAccess, ParallelLoop, nested_parallel, parallel_loop
from tilelang.passes.walk import FRAGMENT, constant, index, loop_kind, remake, substitute


@dataclass(frozen=True, eq=False)
class _Place:
    """An index of a fragment: `start + step * var`, where `var` is one of the loop's; None where none is."""

    var: ir.Var | None
    step: int
    start: Any


def widen_parts(func: X.PrimFunc) -> X.PrimFunc:
    """The function with every such loop widened."""
    body = _widen(func.body)
    return func if body.same_as(func.body) else func.with_body(body)


def _widen(stmt: Any) -> Any:
    if loop_kind(stmt) == "Parallel":
        return _whole(parallel_loop(stmt)) or stmt
    return remake(stmt, _widen)


def _whole(loop: ParallelLoop) -> Any:
    """The loop over the whole fragment; None where the loop is of another kind."""
    touched = [a for a in loop.accesses if a.buffer.scope() == FRAGMENT]
    if not touched or LOOP_LAYOUT in loop.notes or not _one_store(loop.body):
        return None
    buffer = touched[0].buffer
    sizes = [constant(n) for n in buffer.shape]
    places = _places(loop, touched)
    if places is None or None in sizes:
        return None
    new = [X.Var(f"{buffer.name}_{d}", "int32") for d in range(len(sizes))]
    at: dict[ir.Var, Any] = {v: index(0) for v in loop.vars}
    condition: Any = None
    for var, place in zip(new, places, strict=True):
        if place.var is None:
            here: Any = X.EQ(var, place.start)
        else:
            extent = loop.extents[loop.vars.index(place.var)]
            past = var - place.start if constant(place.start) != 0 else var
            at[place.var] = X.FloorDiv(past, index(place.step)) if place.step != 1 else past
            here = X.And(X.GE(past, index(0)), X.LT(past, index(extent) * index(place.step)))
            if place.step != 1:
                here = X.And(here, X.EQ(X.FloorMod(past, index(place.step)), index(0)))
        condition = here if condition is None else X.And(condition, here)
    body = substitute(_pointed(loop.body, buffer, new), at)
    body = X.IfThenElse(condition, body, None, loop.span)
    return nested_parallel(new, [n for n in sizes if n is not None], body, {}, loop.span)


def _one_store(body: Any) -> bool:
    """Whether a body is a store, at most under conditions, that passes no memory on (to atomics)."""
    if any(isinstance(a.element, ir.TensorRegion) for a in all_accesses(body)):
        return False
    while isinstance(body, X.IfThenElse) and body.else_case is None:
        body = body.then_case
    return isinstance(body, X.BufferStore)


def _places(loop: ParallelLoop, touched: list[LoopAccess]) -> list[_Place] | None:
    """The one part of one fragment that all accesses touch, every iteration another element; else None."""
    first = touched[0]
    for other in touched[1:]:
        same = other.buffer.same_as(first.buffer) and len(other.indices) == len(first.indices)
        if not same or not all(map(tvm_ffi.structural_equal, other.indices, first.indices)):
            return None
    moving = [v for v, n in zip(loop.vars, loop.extents, strict=True) if n != 1]
    found = [_place(i, loop, moving) for i in first.indices]
    places = [p for p in found if p is not None]
    used = [p.var for p in places if p.var is not None]
    if len(places) != len(found) or len(used) != len(moving) or len(set(used)) != len(moving):
        return None
    return places


def _place(at: Any, loop: ParallelLoop, moving: list[ir.Var]) -> _Place | None:
    form = affine(at)
    if form is None:
        return None
    found = [v for v in form.variables if v in moving]
    step = form.coefficient(found[0]) if found else 1
    if len(found) > 1 or step < 1:
        return None
    start: Any = index(form.constant)
    for var in form.variables:
        if var not in loop.vars:
            term = var if form.coefficient(var) == 1 else var * index(form.coefficient(var))
            start = term if constant(start) == 0 else start + term
    return _Place(found[0] if found else None, step, start)


def _pointed(body: Any, buffer: ir.Var, at: list[ir.Var]) -> Any:
    """The body with the fragment touched at `at`."""
    if isinstance(body, X.IfThenElse):
        condition = _loads_at(body.condition, buffer, at)
        return X.IfThenElse(condition, _pointed(body.then_case, buffer, at), None, body.span)
    value = _loads_at(body.value, buffer, at)
    indices = list(at) if body.buffer.same_as(buffer) else [_loads_at(i, buffer, at) for i in body.indices]
    return X.BufferStore(body.buffer, value, indices, body.span)


def _loads_at(expr: Any, buffer: ir.Var, at: list[ir.Var]) -> Any:
    def moved(load: Any) -> Any:
        return X.BufferLoad(buffer, list(at)) if load.source.same_as(buffer) else load

    return tvm_ffi.structural_map(expr, (ir.TensorLoad, moved))
