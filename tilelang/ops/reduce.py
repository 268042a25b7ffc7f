"""T.reduce_sum, T.reduce_max, T.reduce_min and relatives: fold one dimension of a tile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.ir import tile_ops


@dataclass(frozen=True, eq=False)
class Reduce:
    """`dst = kind over dimension dim of src`; `dim` counts from 0. `clear` False combines with dst's old contents once.

    `kind` is sum, max, min, abssum, absmax, bitand, bitor or bitxor. dst has src's shape without `dim`, or with 1 there.
    """

    src: Any  # TensorRegion
    dst: Any
    kind: str
    dim: int
    clear: bool = True
    span: Any = None

    def call(self) -> Any:
        """The statement `tl.reduce(src, dst)`."""
        attrs = {"kind": self.kind, "dim": self.dim, "clear": self.clear}
        return X.Evaluate(
            tile_ops.call(tile_ops.REDUCE, [self.src, self.dst], attrs, span=self.span), self.span
        )

    @staticmethod
    def read(call: ir.Call) -> Reduce:
        """The operation a `tl.reduce` call stands for."""
        return Reduce(call.args[0], call.args[1], **dict(call.attrs.items()), span=call.span)
