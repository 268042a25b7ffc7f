"""A convolution as the gemm of its windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilelang.carver.arch import TileDevice
from tilelang.carver.roller.hint import Hint
from tilelang.carver.template.base import BaseTemplate
from tilelang.carver.template.matmul import gemm_candidates


@dataclass
class ConvTemplate(BaseTemplate):
    """Images [N, H, W, C], F filters [K, K, C, F], stride S, dilation D, padding P.

    The rows of the gemm are windows: a hint's block is [windows, filters].
    """

    N: int
    C: int
    H: int
    W: int
    F: int
    K: int
    S: int
    D: int
    P: int
    in_dtype: str = "float16"
    out_dtype: str = "float16"
    accum_dtype: str = "float16"
    with_bias: bool = False

    @property
    def outputs(self) -> tuple[int, int]:
        """Height and width of the result."""
        reach = self.D * (self.K - 1) + 1
        return (
            (self.H + 2 * self.P - reach) // self.S + 1,
            (self.W + 2 * self.P - reach) // self.S + 1,
        )

    def candidates(self, arch: TileDevice) -> list[Hint]:
        rows = self.N * self.outputs[0] * self.outputs[1]
        depth = self.C * self.K * self.K
        return gemm_candidates(rows, self.F, depth, arch, self.in_dtype, self.out_dtype, self.accum_dtype)

    def equivalent_function(self) -> Any:
        from tvm import te
        from tvm import tirx as X

        image = te.placeholder((self.N, self.H, self.W, self.C), self.in_dtype, "A")
        kernel = te.placeholder((self.K, self.K, self.C, self.F), self.in_dtype, "B")
        kh, kw = (te.reduce_axis((0, self.K), name) for name in ("kh", "kw"))
        c = te.reduce_axis((0, self.C), "c")

        def window(n: Any, y: Any, x: Any, f: Any) -> Any:
            row = y * self.S + kh * self.D - self.P
            column = x * self.S + kw * self.D - self.P
            inside = X.all(row >= 0, row < self.H, column >= 0, column < self.W)
            value = X.if_then_else(inside, image[n, row, column, c], X.const(0, self.in_dtype))
            product = value.astype(self.accum_dtype) * kernel[kh, kw, c, f].astype(self.accum_dtype)
            return te.sum(product, axis=[kh, kw, c])

        shape = (self.N, *self.outputs, self.F)
        result = te.compute(shape, window, "C")
        if self.out_dtype != self.accum_dtype:
            last = result
            result = te.compute(shape, lambda *at: last(*at).astype(self.out_dtype), "D")
        return te.create_prim_func([image, kernel, result])
