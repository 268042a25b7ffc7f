"""T.copy on the CPU: one nest of independent element moves; bounds guards come from the access rewriting."""

from __future__ import annotations

from typing import Any

from tvm import tirx as X

from tilelang.ops.copy import Copy
from tilelang.targets.cpu.nests import cast, parallel, plus, wide


def lower_copy(op: Copy) -> Any:
    """`dst[...] = src[...]` over the matching non-1 extents of both regions."""
    src, dst = op.src, op.dst
    src_dims, dst_dims = wide(src), wide(dst)
    if len(src_dims) != len(dst_dims):
        # One side's extents are symbols where the other's are 1: fall back to right-aligned dimensions.
        rank = min(len(src.region), len(dst.region))
        src_dims = list(range(len(src.region) - rank, len(src.region)))
        dst_dims = list(range(len(dst.region) - rank, len(dst.region)))
    extents = [dst.region[d].extent for d in dst_dims]

    def move(loop_vars: list[Any]) -> Any:
        def indices(region: Any, dims: list[int]) -> list[Any]:
            steps = dict(zip(dims, loop_vars, strict=True))
            return [plus(r.min, steps.get(d, 0)) for d, r in enumerate(region.region)]

        value = X.BufferLoad(src.source, indices(src, src_dims))
        to = dst.source
        return X.BufferStore(to, cast(value, str(to.dtype)), indices(dst, dst_dims), op.span)

    return parallel(extents, move, op.span)
