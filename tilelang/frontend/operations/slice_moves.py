"""`B[i, 0:8] = A[j, 0:8]`: neighbours along the last dimension, moved by each thread that comes here; and
`B[i:i + 1] = x`: slices of one element, which are that element.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from tilelang.frontend.model import NamedSlice, Slot
from tilelang.frontend.operators import binary
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import scalar
from tilelang.frontend.slices import slice_length
from tilelang.ir.tile_program import Access, Bind, Context, For, Loop, Store
from tilelang.ir.values import Index, Region, Unknown, as_int


def as_element(value: Any) -> Any:
    """The element that a subscript names whose slices have length 1; any other value as it is."""
    if not isinstance(value, Region) or not value.indices or value.is_point:
        return value
    if any(i.extent is not None and as_int(i.extent) != 1 for i in value.indices):
        return value
    return replace(value, indices=tuple(replace(i, extent=None) for i in value.indices))


def as_slice_move(place: Region, value: Any) -> Region | None:
    """The source, if both sides are slices of one constant length along their last dimensions."""
    if not isinstance(value, Region):
        return None
    lengths = (slice_length(place), slice_length(value))
    return value if lengths[0] is not None and lengths[0] == lengths[1] else None


def reads_now(run: Run, value: NamedSlice) -> bool:
    """Whether a read here finds what stood there when the name was bound: nothing was done since."""
    late = value.late
    if late is None or late.block is not run.block:
        return False
    place = next(k for k, node in enumerate(late.block) if node is late.slot)
    return late.value is None and all(isinstance(n, Slot | Bind) for n in late.block[place:])


def move_slice(run: Run, place: Region, source: Region) -> None:
    """A loop over the elements, vectorised where the accesses allow it."""
    variable = run.fresh("v")
    loop = Loop("vectorized", (variable,), (0,), (slice_length(place) or 0,), place.span)
    context = Context((*run.context.loops, loop), run.context.guards, run.context.maybe)
    body: list[Any] = []
    with run.nested(body, context):
        target = _element(place, variable)
        value = scalar(run, _element(source, variable), source.span)
        run.accesses.append(Access(target.buffer, target.indices or (), "write", place.span, run.context))
        lost = any(isinstance(v, Unknown) for v in (value, *target.starts))
        if lost or not target.buffer.known:
            run.complete = False
            return
        run.emit(Store(target.buffer, target.starts, value, place.span, run.context))
    run.emit(For(loop, body))


def _element(region: Region, variable: Any) -> Region:
    assert region.indices is not None  # a slice
    *outer, last = region.indices
    one = Index(binary(ast.Add, last.start, variable), None, last.span)
    return replace(region, indices=(*outer, one))
