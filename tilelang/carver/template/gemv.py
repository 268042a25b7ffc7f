"""y[N] = A · x, bound by the bytes of A."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tilelang.carver.arch import TileDevice
from tilelang.carver.costs import memory_time
from tilelang.carver.roller.hint import Hint
from tilelang.carver.template.base import BaseTemplate, dtype_bytes, powers_of_two


@dataclass
class GEMVTemplate(BaseTemplate):
    """The matrix is [N, K] with trans_B, else [K, N]; the vector is [1, K]."""

    N: int
    K: int
    trans_B: bool = True
    in_dtype: str = "float16"
    out_dtype: str = "float16"
    accum_dtype: str = "float16"
    with_bias: bool = False

    def candidates(self, arch: TileDevice) -> list[Hint]:
        size = dtype_bytes(self.in_dtype)
        found = []
        for rows in powers_of_two(1, min(64, self.N)):
            for along in powers_of_two(1, arch.warp_size if self.trans_B else 8):
                if not 32 <= rows * along <= 1024:
                    continue
                for vector in powers_of_two(1, 16 // size):
                    if self.K % vector:
                        continue
                    count = math.ceil(self.N / rows)
                    # Lanes side by side along K read whole lines of a row; a lone one a part.
                    line = min(16, vector * size) * (1 if along >= 4 or not self.trans_B else 0.25)
                    bytes_each = rows * self.K * size
                    time = memory_time(count, rows * along, bytes_each, int(line), arch)
                    found.append(
                        Hint(
                            block=[1, rows],
                            thread=[1, rows],
                            rstep=[along * vector],
                            reduce_thread=[along],
                            vectorize={"A": vector, "B": vector},
                            estimated_time=time,
                        )
                    )
        return found

    def equivalent_function(self) -> Any:
        from tvm import te

        A = te.placeholder((1, self.K), self.in_dtype, "A")
        B = te.placeholder((self.N, self.K) if self.trans_B else (self.K, self.N), self.in_dtype, "B")
        k = te.reduce_axis((0, self.K), "k")

        def product(i: Any, j: Any) -> Any:
            b = B[j, k] if self.trans_B else B[k, j]
            return te.sum(A[i, k].astype(self.accum_dtype) * b.astype(self.accum_dtype), axis=k)

        C = te.compute((1, self.N), product, "C")
        arguments, result = [A, B], C
        if self.with_bias:
            bias = te.placeholder((self.N,), self.out_dtype, "Bias")
            arguments.append(bias)
            result = te.compute((1, self.N), lambda i, j: C[i, j] + bias[j].astype(self.accum_dtype), "E")
        if self.out_dtype != self.accum_dtype:
            last = result
            result = te.compute((1, self.N), lambda i, j: last[i, j].astype(self.out_dtype), "D")
        return te.create_prim_func([*arguments, result])
