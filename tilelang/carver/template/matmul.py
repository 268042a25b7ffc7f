"""C[M, N] = A · B on matrix instructions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tilelang.carver.arch import TileDevice, has_mma_support
from tilelang.carver.costs import Block, launch_time
from tilelang.carver.roller.hint import Hint
from tilelang.carver.roller.rasterization import NoRasterization, Rasterization2DRow
from tilelang.carver.template.base import BaseTemplate, dtype_bytes, powers_of_two

_L2_BYTES = 16 << 20  # operands beyond that want neighbouring tiles to be worked on together
_STAGES = (1, 2, 3, 4)


@dataclass
class MatmulTemplate(BaseTemplate):
    """A is [M, K] ([K, M] with trans_A), B is [N, K] with trans_B, else [K, N]."""

    M: int
    N: int
    K: int
    trans_A: bool = False
    trans_B: bool = True
    in_dtype: str = "float16"
    out_dtype: str = "float16"
    accum_dtype: str = "float16"
    with_bias: bool = False

    def candidates(self, arch: TileDevice) -> list[Hint]:
        return gemm_candidates(self.M, self.N, self.K, arch, self.in_dtype, self.out_dtype, self.accum_dtype)

    def equivalent_function(self) -> Any:
        from tvm import te

        A = te.placeholder((self.K, self.M) if self.trans_A else (self.M, self.K), self.in_dtype, "A")
        B = te.placeholder((self.N, self.K) if self.trans_B else (self.K, self.N), self.in_dtype, "B")
        k = te.reduce_axis((0, self.K), "k")

        def product(i: Any, j: Any) -> Any:
            a, b = A[k, i] if self.trans_A else A[i, k], B[j, k] if self.trans_B else B[k, j]
            return te.sum(a.astype(self.accum_dtype) * b.astype(self.accum_dtype), axis=k)

        C = te.compute((self.M, self.N), product, "C")
        arguments, result = [A, B], C
        if self.with_bias:
            bias = te.placeholder((self.N,), self.out_dtype, "Bias")
            arguments.append(bias)
            result = te.compute(
                (self.M, self.N), lambda i, j: C[i, j] + bias[j].astype(self.accum_dtype), "E"
            )
        if self.out_dtype != self.accum_dtype:
            last = result
            result = te.compute((self.M, self.N), lambda i, j: last[i, j].astype(self.out_dtype), "D")
        return te.create_prim_func([*arguments, result])


def gemm_candidates(
    M: int, N: int, K: int, arch: TileDevice, in_dtype: str, out_dtype: str, accum_dtype: str
) -> list[Hint]:
    """Tiles of a gemm that fit the device."""
    size, out, accumulator = dtype_bytes(in_dtype), dtype_bytes(out_dtype), dtype_bytes(accum_dtype)
    units = has_mma_support(arch)
    speed = (2.0 / size if size < 4 else 0.5) if units else 0.05
    found = []
    for bm in powers_of_two(16, min(256, _reach(M))):
        for bn in powers_of_two(16, min(256, _reach(N))):
            for wm, wn in _warps(bm, bn):
                warps = (bm // wm) * (bn // wn)
                for bk in (k for k in (32 // size, 64 // size, 128 // size) if k <= max(K, 16)):
                    for stages in _STAGES:
                        hint = _tile(
                            (M, N, K), (bm, bn, bk), (wm, wn), stages, warps * arch.warp_size, arch,
                            (size, out, accumulator), speed,
                        )  # fmt: skip
                        if hint is not None:
                            hint.use_tc = units
                            found.append(hint)
    return found


def _tile(
    sizes: tuple[int, int, int],
    tile: tuple[int, int, int],
    warp: tuple[int, int],
    stages: int,
    threads: int,
    arch: TileDevice,
    widths: tuple[int, int, int],
    speed: float,
) -> Hint | None:
    (M, N, K), (bm, bn, bk), (wm, wn) = sizes, tile, warp
    size, out, accumulator = widths
    count = math.ceil(M / bm) * math.ceil(N / bn)
    depth = math.ceil(K / bk) * bk
    # Tiles that run at a time share rows of A and columns of B in the cache.
    rows = max(1, min(math.ceil(M / bm), round(math.sqrt(arch.compute_max_core))))
    columns = max(1, min(math.ceil(N / bn), math.ceil(arch.compute_max_core / rows)))
    traffic = (bm / columns + bn / rows) * depth * size + bm * bn * out
    block = Block(
        threads=threads,
        shared_bytes=(bm + bn) * bk * size * stages,
        accumulators=bm * bn * max(1, accumulator // 4),
        flops=2.0 * bm * bn * depth,
        shared_traffic=threads / arch.warp_size * (wm + wn) * depth * size,
        global_traffic=traffic,
        steps=math.ceil(K / bk),
    )
    time = launch_time(block, count, arch, speed)
    if math.isinf(time):
        return None
    exposed = {1: 2.0, 2: 1.15, 3: 1.02, 4: 1.0}[stages]  # loads that nothing is computed beside
    large = (M + N) * K * size > _L2_BYTES
    return Hint(
        block=[bm, bn],
        warp=[wm, wn],
        rstep=[bk],
        pipeline_stage=stages,
        use_async=stages > 1,
        vectorize={"A_reindex": 16 // size, "B_reindex": 16 // size},
        rasterization_plan=Rasterization2DRow(10) if large else NoRasterization(),
        estimated_time=time * exposed,
    )


def _reach(extent: int) -> int:
    """The smallest power of two that covers an extent, 16 at least."""
    return max(16, 1 << (extent - 1).bit_length())


def _warps(bm: int, bn: int) -> list[tuple[int, int]]:
    """Tiles of a warp: 1, 2, 4 or 8 warps, none below 16 by 16."""
    return [
        (wm, wn)
        for wm in powers_of_two(16, bm)
        for wn in powers_of_two(16, bn)
        if (bm // wm) * (bn // wn) in (1, 2, 4, 8)
    ]
