"""T.copy: move a tile between global memory, shared memory and fragments, converting the dtype if it differs.

Extents follow the contract: a whole buffer gives its shape, a slice its length, a point `A[i, j]` takes the extents of
the other side, right-aligned and padded with leading ones. Reads outside a global tensor give zero, writes are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.ir import tile_ops


@dataclass(frozen=True, eq=False)
class Copy:
    """`dst[...] = src[...]`. Both regions hold the same number of non-1 extents, matched in order, equal sizes.

    `is_async`: part of an open asynchronous group (placed by pipelining); the data is there only after the matching
    `tl.async_wait` and a barrier.
    """

    src: Any  # TensorRegion
    dst: Any  # TensorRegion
    coalesced_width: int | None = None
    prefer_instruction: str | None = None
    eviction_policy: str | None = None
    disable_tma: bool = False
    is_async: bool = False
    span: Any = None

    def call(self) -> Any:
        """The statement `tl.copy(src, dst)`."""
        attrs = {
            "coalesced_width": self.coalesced_width,
            "prefer_instruction": self.prefer_instruction,
            "eviction_policy": self.eviction_policy,
            "disable_tma": self.disable_tma or None,
            "is_async": self.is_async or None,
        }
        return X.Evaluate(
            tile_ops.call(tile_ops.COPY, [self.src, self.dst], attrs, span=self.span), self.span
        )

    @staticmethod
    def read(call: ir.Call) -> Copy:
        """The operation a `tl.copy` call stands for."""
        attrs = dict(call.attrs.items()) if call.attrs else {}
        return Copy(call.args[0], call.args[1], **attrs, span=call.span)
