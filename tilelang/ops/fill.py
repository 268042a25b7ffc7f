"""T.fill and T.clear: set every element of a buffer or a slice to one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.ir import tile_ops


@dataclass(frozen=True, eq=False)
class Fill:
    """`dst[...] = value`, the value already of dst's dtype."""

    dst: Any  # TensorRegion
    value: Any
    span: Any = None

    def call(self) -> Any:
        """The statement `tl.fill(dst, value)`."""
        return X.Evaluate(tile_ops.call(tile_ops.FILL, [self.dst, self.value], span=self.span), self.span)

    @staticmethod
    def read(call: ir.Call) -> Fill:
        """The operation a `tl.fill` call stands for."""
        return Fill(call.args[0], call.args[1], span=call.span)
