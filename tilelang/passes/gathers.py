"""T.Parallel loops that only fill a shared tile from global memory: copies that choose their places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.ir.guarded_load import guarded_load
from tilelang.passes.parallel_loop import ASYNC, nested_parallel, parallel_loop
from tilelang.passes.walk import constant, index, substitute, uses, variables


@dataclass(frozen=True, eq=False)
class Gather:
    """`for vars in Parallel: tile[vars] = value`, where `value` is one load from `source`, or else 0."""

    vars: tuple[ir.Var, ...]
    extents: tuple[int, ...]
    tile: ir.Var
    value: Any
    source: ir.Var
    notes: Mapping[str, Any]
    span: Any

    @property
    def steered_by(self) -> list[ir.Var]:
        """What decides which elements are loaded, memory included, other than the loop's own variables."""
        load, condition = guarded_load(self.value)
        given = [*load.indices, *([] if condition is None else [condition])]
        own = {v.__chandle__() for v in self.vars}
        found = [v for e in given for v in variables(e)]
        return [v for v in found if v.__chandle__() not in own]

    def early(self, values: Mapping[ir.Var, Any], tile: ir.Var, version: Any) -> Any:
        """The loop for other values of what steers it, into a version of the tile."""
        fresh = {v: X.Var(str(v.name), v.ty) for v in self.vars}
        value = substitute(self.value, {**values, **fresh})
        store = X.BufferStore(tile, value, [version, *fresh.values()], self.span)
        notes = {**self.notes, ASYNC: True}
        return nested_parallel(list(fresh.values()), list(self.extents), store, notes, self.span)


def gather(stmt: X.For, scalars: Mapping[ir.Var, Any]) -> Gather | None:
    """The loop as a gather of neighbours into all of a tile; None if it does anything else.

    scalars: values bound before the loop; those bound inside of it are written out too.
    """
    loop = parallel_loop(stmt)
    known = dict(scalars)
    parts = list(loop.body.seq) if isinstance(loop.body, X.SeqStmt) else [loop.body]
    for part in parts[:-1]:
        if not isinstance(part, X.Bind) or tile_ops.is_ours(part.value):
            return None
        known[part.var] = substitute(part.value, known)
    store = parts[-1]
    if not isinstance(store, X.BufferStore) or loop.shape is None:
        return None
    tile, value = store.buffer, substitute(store.value, known)
    load = guarded_load(value)[0]
    if load is None or load.source.scope() != "global" or not tile.scope().startswith("shared"):
        return None
    if str(load.source.dtype) != str(tile.dtype) or not _fills(tile, store.indices, loop.vars, loop.shape):
        return None
    inner = {loop.vars[-1].__chandle__()}
    if any(uses(i, inner) for i in load.indices[:-1]) or not _counts(load.indices[-1], loop.vars[-1]):
        return None
    return Gather(loop.vars, loop.shape, tile, value, load.source, loop.notes, stmt.span)


def _fills(tile: ir.Var, indices: Any, loop_vars: tuple[ir.Var, ...], shape: tuple[int, ...]) -> bool:
    same = len(indices) == len(loop_vars) and all(
        isinstance(i, ir.Var) and i.same_as(v) for i, v in zip(indices, loop_vars, strict=True)
    )
    return same and [constant(n) for n in tile.shape] == list(shape)


def _counts(place: Any, inner: ir.Var) -> bool:
    """Whether `place` is `inner` plus what does not depend on it."""
    if isinstance(place, ir.Var):
        return place.same_as(inner)
    if not isinstance(place, X.Add):
        return False
    a, b = (uses(index(side), {inner.__chandle__()}) for side in (place.a, place.b))
    return a != b and _counts(place.a if a else place.b, inner)
