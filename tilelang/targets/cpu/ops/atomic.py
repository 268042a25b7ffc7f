"""Atomic updates on the CPU: plain updates, since the blocks of such a kernel run one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.ir.tile_ops import seq
from tilelang.ops.atomic import Atomic, AtomicTile
from tilelang.passes.walk import calls, walk
from tilelang.targets.cpu.nests import at, cast, parallel, wide

_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "max": X.Max,
    "min": X.Min,
    "or": lambda a, b: a | b,
}


def has_atomics(body: Any) -> bool:
    """Whether blocks may update the same elements, so that they must not run at the same time."""
    names = (tile_ops.ATOMIC, tile_ops.ATOMIC_TILE)
    parts = (s.value for s in walk(body) if isinstance(s, X.Evaluate | X.Bind))
    return any(tile_ops.is_call(c, name) for part in parts for c in calls(part) for name in names)


def lower_atomic(op: Atomic, result: Any = None) -> Any:
    """The loads and stores of an update; `result`, a scalar, is bound to the old value."""
    buffer, indices = op.dst.source, list(op.dst.indices)
    load = X.BufferLoad(buffer, indices)
    made: list[Any] = [] if result is None else [X.Bind(result, load, op.span)]
    for lane, value in enumerate(op.values):
        place = [*indices[:-1], indices[-1] + lane] if lane else indices
        new = value if op.kind == "store" else _COMBINE[op.kind](X.BufferLoad(buffer, place), value)
        made.append(X.BufferStore(buffer, new, place, op.span))
    return seq(made)


def lower_atomic_tile(op: AtomicTile) -> Any:
    """`dst[...] op= src[...]` over the matching extents other than 1."""
    src, dst = op.src, op.dst
    src_dims, dst_dims = wide(src), wide(dst)
    extents = [src.region[d].extent for d in src_dims]

    def update(loop_vars: list[Any]) -> Any:
        def indices(region: Any, dims: list[int]) -> list[Any]:
            steps = dict(zip(dims, loop_vars, strict=True))
            return at(region, [steps.get(d, 0) for d in range(len(region.region))])

        value = cast(X.BufferLoad(src.source, indices(src, src_dims)), str(dst.source.dtype))
        return lower_atomic(
            Atomic(X.BufferLoad(dst.source, indices(dst, dst_dims)), (value,), op.kind, op.order, op.span)
        )

    return parallel(extents, update, op.span)
