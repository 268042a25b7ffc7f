"""T.fill and T.clear on the CPU: one nest of independent stores."""

from __future__ import annotations

from typing import Any

from tvm import tirx as X

from tilelang.ops.fill import Fill
from tilelang.targets.cpu.nests import at, parallel


def lower_fill(op: Fill) -> Any:
    """`dst[...] = value`."""
    extents = [r.extent for r in op.dst.region]
    return parallel(
        extents, lambda v: X.BufferStore(op.dst.source, op.value, at(op.dst, v), op.span), op.span
    )
