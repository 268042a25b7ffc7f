"""T.gemm: C += op(A) · op(B) on tiles, with tensor cores where the target has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.ir import tile_ops


@dataclass(frozen=True, eq=False)
class Gemm:
    """C[M, N] += A[M, K] · B[K, N]; `transpose_a` means A is stored [K, M], `transpose_b` that B is stored [N, K].

    `clear_accum` is a boolean expression: start from zero instead of C's contents. `policy` is Square, FullRow or
    FullCol. Leading dimensions of the regions are 1.
    """

    a: Any  # TensorRegion
    b: Any
    c: Any
    transpose_a: bool = False
    transpose_b: bool = False
    policy: str = "Square"
    clear_accum: Any = False
    span: Any = None

    def call(self) -> Any:
        """The statement `tl.gemm(a, b, c, clear_accum)`."""
        clear = X.const(self.clear_accum, "bool") if isinstance(self.clear_accum, bool) else self.clear_accum
        attrs = {"transpose_a": self.transpose_a, "transpose_b": self.transpose_b, "policy": self.policy}
        return X.Evaluate(
            tile_ops.call(tile_ops.GEMM, [self.a, self.b, self.c, clear], attrs, span=self.span), self.span
        )

    @staticmethod
    def read(call: ir.Call) -> Gemm:
        """The operation a `tl.gemm` call stands for."""
        a, b, c, clear = call.args
        return Gemm(a, b, c, **dict(call.attrs.items()), clear_accum=clear, span=call.span)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(M, N, K) of the tile; the extents are compile-time integers by then."""
        c = [int(r.extent) for r in self.c.region][-2:]
        a = [int(r.extent) for r in self.a.region][-2:]
        return c[0], c[1], a[0] if self.transpose_a else a[1]
