"""Mixtures of experts, sparse attention, convolutions: kernels in classes, tables, emitters, dispatchers."""

from __future__ import annotations

import dataclasses
import enum
import itertools
import math
import os
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Optional, Union

import torch
import tilelang
import tilelang.language as T

DEBUG = os.environ.get("DEBUG", "0") == "1"
Tile = namedtuple("Tile", ["m", "n", "k"])


class Routing(enum.Enum):
    SOFTMAX = "softmax"
    SIGMOID = "sigmoid"


class Blocks(NamedTuple):
    token: int = 64
    inner: int = 64
    hidden: int = 32


@dataclass
class MoEConfig:
    hidden: int = 1024
    expert: int = 512
    experts: int = 8
    top_k: int = 2
    routing: Routing = Routing.SOFTMAX
    blocks: Blocks = field(default_factory=Blocks)
    stages: int = 2
    dtype: Any = torch.float16
    SHARED: ClassVar[int] = 1

    def __post_init__(self):
        self.intermediate = self.expert * self.SHARED

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        return {"gate": (self.expert, self.hidden), "down": (self.hidden, self.expert)}

    @classmethod
    def tiny(cls, **overrides) -> MoEConfig:
        return dataclasses.replace(cls(hidden=256, expert=128), **overrides)


CONFIGS = OrderedDict(
    small=MoEConfig.tiny(), large=MoEConfig(), wide=MoEConfig.tiny(blocks=Blocks(token=128))
)


class ExpertLayer:
    """A kernel built by methods of an object, cached by what it depends on."""

    accum = "float32"
    threads = 256

    def __init__(self, config: MoEConfig, *, fuse: bool = True, name: Optional[str] = None):
        self.config = config
        self.fuse = fuse
        self.name = name or f"moe_{config.hidden}x{config.expert}"
        self._cache: dict[int, Any] = {}

    @staticmethod
    def gate(x, y):
        return x * T.sigmoid(x) * y

    def _first(self, tokens: int):
        cfg = self.config
        bt, bi, bh = cfg.blocks
        E, H = cfg.shapes["gate"]
        dtype, accum = cfg.dtype, self.accum

        @T.prim_func
        def first(
            X: T.Tensor((tokens, H), dtype),
            W_gate: T.Tensor((E, H), dtype),
            W_up: T.Tensor((E, H), dtype),
            Y: T.Tensor((tokens, E), dtype),
        ):
            with T.Kernel(T.ceildiv(tokens, bt), T.ceildiv(E, bi), threads=self.threads) as (bx, by):
                x = T.alloc_shared((bt, bh), dtype)
                wg = T.alloc_shared((bi, bh), dtype)
                wu = T.alloc_shared((bi, bh), dtype)
                gate = T.alloc_fragment((bt, bi), accum)
                up = T.alloc_fragment((bt, bi), accum)
                T.clear(gate)
                T.clear(up)
                for k in T.Pipelined(T.ceildiv(H, bh), num_stages=cfg.stages):
                    T.copy(X[bx * bt, k * bh], x)
                    for W, tile, acc in ((W_gate, wg, gate), (W_up, wu, up)):
                        T.copy(W[by * bi, k * bh], tile)
                        T.gemm(x, tile, acc, transpose_B=True)
                if self.fuse:
                    for i, j in T.Parallel(bt, bi):
                        up[i, j] = self.gate(gate[i, j], up[i, j])
                T.copy(up, Y[bx * bt, by * bi])

        return first

    def kernel(self, tokens: int):
        if tokens not in self._cache:
            self._cache[tokens] = tilelang.compile(self._first(tokens), out_idx=[3])
        return self._cache[tokens]

    def __call__(self, x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        return self.kernel(x.shape[0])(x, *weights)


def routed_experts(config: Union[MoEConfig, str] = "small", tokens: int = 512, block: int = 64):
    """Rows sorted by expert; a padded table says which expert a block of rows belongs to."""
    if isinstance(config, str):
        config = CONFIGS[config]
    H, E, n = config.hidden, config.expert, config.experts
    rows = tokens * config.top_k
    M = math.ceil(rows / block) + n
    tile = Tile(block, 64, 32)

    @T.prim_func
    def main(
        X: T.Tensor((rows, H), "float16"),
        W: T.Tensor((n, E, H), "float16"),
        weights: T.Tensor((rows,), "float32"),
        sizes: T.Tensor((n,), "int32"),
        offsets: T.Tensor((n,), "int32"),
        padded: T.Tensor((n,), "int32"),
        expert_of: T.Tensor((M,), "int32"),
        Y: T.Tensor((rows, E), "float16"),
    ):
        with T.Kernel(M, T.ceildiv(E, tile.n), threads=128) as (bx, by):
            x = T.alloc_shared((tile.m, tile.k), "float16")
            w = T.alloc_shared((tile.n, tile.k), "float16")
            y = T.alloc_fragment((tile.m, tile.n), "float32")
            e = expert_of[bx]
            start = bx * tile.m - padded[e] + offsets[e]
            actual = T.max(0, T.min(tile.m, sizes[e] - (bx * tile.m - padded[e])))
            T.clear(y)
            for k in T.Pipelined(T.ceildiv(H, tile.k), num_stages=config.stages):
                T.copy(X[start : start + tile.m, k * tile.k : (k + 1) * tile.k], x)
                T.copy(W[e, by * tile.n : (by + 1) * tile.n, k * tile.k : (k + 1) * tile.k], w)
                T.gemm(x, w, y, transpose_B=True)
            for i, j in T.Parallel(tile.m, tile.n):
                if i < actual:
                    Y[start + i, by * tile.n + j] = y[i, j] * weights[start + i]

    return main


def gate_kernel(tokens, experts, top_k, routing: Routing = Routing.SOFTMAX):
    """Scores of the router, by the kind of routing that Python chooses."""

    @T.macro
    def normalise(scores, rows):
        match routing:
            case Routing.SOFTMAX:
                top = T.alloc_fragment((rows,), "float32")
                total = T.alloc_fragment((rows,), "float32")
                T.reduce_max(scores, top, dim=1)
                for i, j in T.Parallel(rows, experts):
                    scores[i, j] = T.exp(scores[i, j] - top[i])
                T.reduce_sum(scores, total, dim=1)
                for i, j in T.Parallel(rows, experts):
                    scores[i, j] /= total[i]
            case Routing.SIGMOID:
                for i, j in T.Parallel(rows, experts):
                    scores[i, j] = T.sigmoid(scores[i, j])

    rows = 32

    @T.prim_func
    def main(logits: T.Tensor((tokens, experts), "float32"), probs: T.Tensor((tokens, experts), "float32")):
        with T.Kernel(T.ceildiv(tokens, rows), threads=128) as bx:
            scores = T.alloc_fragment((rows, experts), "float32")
            T.copy(logits[bx * rows, 0], scores)
            normalise(scores, rows)
            T.copy(scores, probs[bx * rows, 0])

    return main


@tilelang.jit(out_idx=[2])
def conv2d(N, C, H, W, F, K=3, stride=1, dilation=1, pad=1, block_M=64, block_N=64, block_K=32):
    """A convolution as a product, its left operand gathered by index."""
    KH = KW = K
    OH = (H + 2 * pad - dilation * (K - 1) - 1) // stride + 1
    OW = (W + 2 * pad - dilation * (K - 1) - 1) // stride + 1

    @T.prim_func
    def main(
        data: T.Tensor((N, H, W, C), "float16"),
        kernel: T.Tensor((KH, KW, C, F), "float16"),
        out: T.Tensor((N, OH, OW, F), "float16"),
    ):
        with T.Kernel(T.ceildiv(F, block_N), T.ceildiv(N * OH * OW, block_M), threads=128) as (bx, by):
            data_shared = T.alloc_shared((block_M, block_K), "float16")
            kernel_shared = T.alloc_shared((block_K, block_N), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            kernel_flat = T.view(kernel, (KH * KW * C, F))
            out_flat = T.view(out, (N * OH * OW, F))
            T.clear(acc)
            for k_iter in T.Pipelined(T.ceildiv(KH * KW * C, block_K), num_stages=2):
                for i, j in T.Parallel(block_M, block_K):
                    k = k_iter * block_K + j
                    m = by * block_M + i
                    h = m % (OH * OW) // OW * stride + k // (KW * C) * dilation - pad
                    w = m % OW * stride + k // C % KW * dilation - pad
                    inside = (h >= 0) and (w >= 0) and (h < H) and (w < W)
                    data_shared[i, j] = T.if_then_else(inside, data[m // (OH * OW), h, w, k % C], 0)
                T.copy(kernel_flat[k_iter * block_K, bx * block_N], kernel_shared)
                T.gemm(data_shared, kernel_shared, acc)
            T.copy(acc, out_flat[by * block_M, bx * block_N])

    return main


class BlockSparse:
    """Only the blocks of a mask are visited."""

    def __init__(self, block: int = 64, downsample: int | None = None):
        self.block = block
        self.downsample = downsample or block
        assert self.block % 16 == 0, f"{self.block} is no tile"

    @tilelang.jit
    def forward(self, A, B, mask, num_stages: int = 2):
        M, N, K = T.const("M, N, K")
        mb, nb, kb = T.const("mb, nb, kb")
        A: T.Tensor((M, K), T.float16)
        B: T.Tensor((K, N), T.float16)
        mask: T.Tensor((mb, nb, kb), T.bool)
        C = T.empty((M, N), T.float16)
        block = self.block
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            a = T.alloc_shared((block, 32), T.float16)
            b = T.alloc_shared((32, block), T.float16)
            c = T.alloc_fragment((block, block), T.float32)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=num_stages):
                if mask[by, bx, k]:
                    T.copy(A[by * block, k * 32], a)
                    T.copy(B[k * 32, bx * block], b)
                    T.gemm(a, b, c)
            T.copy(c, C[by * block, bx * block])
        return C


@tilelang.jit
def gather_rows(table, ids, hidden_block: int = 256):
    """Rows of a table by index; -1 gives zeros."""
    V, D, L = T.const("V, D, L")
    table: T.Tensor((V, D), T.bfloat16)
    ids: T.Tensor((L,), T.int32)
    out = T.empty((L, D), T.bfloat16)
    with T.Kernel(L, T.ceildiv(D, hidden_block), threads=128) as (row, col):
        which = ids[row]
        for j in T.Parallel(hidden_block):
            if col * hidden_block + j < D:
                out[row, col * hidden_block + j] = table[which, col * hidden_block + j] if which >= 0 else 0.0
    return out


BUILDERS: dict[str, Any] = defaultdict(lambda: routed_experts)
BUILDERS["routed"] = routed_experts
BUILDERS.update(gate=gate_kernel)


def build(kind: str, *args, **kwargs):
    return tilelang.compile(BUILDERS[kind](*args, **kwargs))


def main():
    for name, config in CONFIGS.items():
        layer = ExpertLayer(config, name=name)
        layer(torch.randn(512, config.hidden, dtype=torch.float16))
    build("routed", "large", tokens=256)
    for routing in Routing:
        build("gate", 1024, 64, 2, routing=routing)
    for K, stride in itertools.product((1, 3), (1, 2)):
        conv2d(1, 64, 32, 32, 64, K, stride, pad=K // 2)


if __name__ == "__main__":
    main()
