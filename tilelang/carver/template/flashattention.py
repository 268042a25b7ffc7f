"""Attention in one pass over the keys, two gemms for each tile of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tilelang.carver.arch import TileDevice, has_mma_support
from tilelang.carver.costs import Block, launch_time
from tilelang.carver.roller.hint import Hint
from tilelang.carver.template.base import BaseTemplate, dtype_bytes


@dataclass
class FlashAttentionTemplate(BaseTemplate):
    """softmax(Q · K^T) · V for each batch and head. A hint's block is [queries, keys] of a tile."""

    batch_size: int = 1
    num_heads: int = 1
    head_dim: int = 1
    seq_length: int = 1
    seq_kv_length: int = 1
    is_causal: bool = False
    in_dtype: str = "float16"
    out_dtype: str = "float16"
    accum_dtype: str = "float16"

    def candidates(self, arch: TileDevice) -> list[Hint]:
        size = dtype_bytes(self.in_dtype)
        heads = self.batch_size * self.num_heads
        turns = self.seq_kv_length * (0.5 if self.is_causal else 1.0)
        speed = (2.0 / size if size < 4 else 0.5) if has_mma_support(arch) else 0.05
        found = []
        for queries in (16, 32, 64, 128, 256):
            for keys in (16, 32, 64, 128, 256):
                for warps in (w for w in (1, 2, 4, 8) if queries // w >= 16):
                    for stages in (1, 2, 3):
                        time = self._time(queries, keys, warps, stages, heads, turns, size, speed, arch)
                        if math.isinf(time):
                            continue
                        found.append(
                            Hint(
                                block=[queries, keys],
                                warp=[queries // warps, keys],
                                rstep=[self.head_dim],
                                pipeline_stage=stages,
                                use_async=stages > 1,
                                use_tc=has_mma_support(arch),
                                vectorize={"Q": 16 // size, "K": 16 // size, "V": 16 // size},
                                estimated_time=time * {1: 1.6, 2: 1.05, 3: 1.0}[stages],
                            )
                        )
        return found

    def _time(
        self, queries: int, keys: int, warps: int, stages: int, heads: int, turns: float, size: int,
        speed: float, arch: TileDevice,
    ) -> float:  # fmt: skip
        d = self.head_dim
        block = Block(
            threads=warps * arch.warp_size,
            shared_bytes=(queries * d + 2 * keys * d * stages) * size,
            accumulators=queries * (keys + d),
            flops=4.0 * queries * turns * d,
            shared_traffic=warps * 2 * turns * d * size,
            # Blocks of one head read the same keys and values at about the same time.
            steps=4 * math.ceil(turns / keys),  # two gemms, and a softmax with its exchanges between them
            global_traffic=2 * queries * d * size + 2 * turns * d * size / max(1, self.seq_length // queries),
        )
        return launch_time(block, heads * math.ceil(self.seq_length / queries), arch, speed)

    def equivalent_function(self) -> Any:
        """The two gemms and the scores between them; the softmax is no plain loop and left out."""
        from tvm import te

        heads = self.batch_size * self.num_heads
        Q = te.placeholder((heads, self.seq_length, self.head_dim), self.in_dtype, "Q")
        K = te.placeholder((heads, self.seq_kv_length, self.head_dim), self.in_dtype, "K")
        V = te.placeholder((heads, self.seq_kv_length, self.head_dim), self.in_dtype, "V")
        d, n = te.reduce_axis((0, self.head_dim), "d"), te.reduce_axis((0, self.seq_kv_length), "n")
        scores = te.compute(
            (heads, self.seq_length, self.seq_kv_length),
            lambda h, i, j: te.sum(
                Q[h, i, d].astype(self.accum_dtype) * K[h, j, d].astype(self.accum_dtype), d
            ),
            "S",
        )
        out = te.compute(
            (heads, self.seq_length, self.head_dim),
            lambda h, i, j: te.sum(scores[h, i, n] * V[h, n, j].astype(self.accum_dtype), n),
            "O",
        )
        return te.create_prim_func([Q, K, V, out])
