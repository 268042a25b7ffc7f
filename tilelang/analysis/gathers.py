"""T.Parallel loops that only fill a shared tile from global memory, as `passes.gathers` finds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilelang.ir.guarded_load import guarded_load
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_ops import is_ours
from tilelang.ir.tile_program import Bind, For, Loop, Node, Store
from tilelang.ir.values import Buffer, Value, as_int

from tvm import ir  # isort: skip
from tvm import tirx as X


def gathered(node: Node, by_var: Mapping[ir.Var, Buffer]) -> tuple[Buffer, Buffer] | None:
    """(tensor, tile) of a loop that fills all of the tile with neighbours from the tensor, or 0 where a
    condition says so; None for any other statement.
    """
    nest = _nest(node)
    if nest is None:
        return None
    loops, body = nest
    binds, store = body[:-1], body[-1] if body else None
    if not isinstance(store, Store) or not all(isinstance(b, Bind) and not is_ours(b.value) for b in binds):
        return None
    load = guarded_load(store.value)[0]
    if load is None:
        return None
    source = by_var.get(load.source)
    tile = store.buffer
    if source is None or source.scope != "global" or tile.scope != "shared" or source.dtype != tile.dtype:
        return None
    loop_vars = [v for loop in loops for v in loop.vars]
    extents = [e for loop in loops for e in loop.extents]
    if not _fills(tile, store.indices, loop_vars, extents):
        return None
    moving = {loop_vars[-1]}
    for bind in binds:
        if isinstance(bind, Bind) and free_vars(bind.value) & moving:
            moving.add(bind.var)
    *outer, last = load.indices
    if any(free_vars(i) & moving for i in outer) or not _counts(last, loop_vars[-1], moving):
        return None
    return source, tile


def _nest(node: Node) -> tuple[list[Loop], list[Node]] | None:
    """Directly nested T.Parallel loops from 0 on and the body of the innermost."""
    loops: list[Loop] = []
    while isinstance(node, For) and node.loop.kind == "Parallel":
        loops.append(node.loop)
        if len(node.body) != 1 or not isinstance(node.body[0], For):
            return loops, node.body
        node = node.body[0]
    return None


def _fills(tile: Buffer, indices: tuple[Value, ...], loop_vars: list[ir.Var], extents: list[Value]) -> bool:
    if not len(indices) == len(loop_vars) == len(tile.shape):
        return False
    same = all(isinstance(i, ir.Var) and i.same_as(v) for i, v in zip(indices, loop_vars, strict=True))
    sizes = [as_int(n) for n in tile.shape]
    return same and None not in sizes and sizes == [as_int(e) for e in extents]


def _counts(place: Any, inner: ir.Var, moving: set[ir.Var]) -> bool:
    """Whether `place` is `inner` plus what does not depend on it."""
    if isinstance(place, ir.Var):
        return place.same_as(inner)
    if not isinstance(place, X.Add):
        return False
    a, b = (bool(free_vars(side) & moving) for side in (place.a, place.b))
    return a != b and _counts(place.a if a else place.b, inner, moving)
