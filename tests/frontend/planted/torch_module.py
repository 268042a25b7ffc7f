"""A kernel with a planted mistake, in this style: torch module."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import tilelang
import tilelang.language as T


class FusedMLP(nn.Module):
    BLOCK_M = 64
    BLOCK_N = 128

    def __init__(self, hidden=1024, inter=4096, dtype=torch.float16):
        super().__init__()
        self.hidden = hidden
        self.inter = inter
        self.dtype = dtype
        self.w = nn.Parameter(torch.empty(hidden, inter, dtype=dtype))
        self.block_k = 32
        self.kernel = self.build()

    def build(self):
        hidden, inter, dtype = self.hidden, self.inter, self.dtype
        bm, bn, bk = self.BLOCK_M, self.BLOCK_N, self.block_k
        M = T.dynamic("M")

        @T.prim_func
        def main(
            X: T.Tensor((M, hidden), T.float16),
            W: T.Tensor((hidden, inter), T.float16),
            Y: T.Tensor((M, inter), T.float16),
        ):
            with T.Kernel(T.ceildiv(inter, bn), T.ceildiv(M, bm), threads=128) as (bx, by):
                x = T.alloc_shared((bm, bk), T.float16)
                w = T.alloc_shared((bn, bk), T.float16)
                acc = T.alloc_fragment((bm, bn), T.float32)
                T.clear(acc)
                for k in T.Pipelined(T.ceildiv(hidden, bk), num_stages=2):
                    T.copy(X[by * bm, k * bk], x)
                    T.copy(W[k * bk, bx * bn], w)
                    T.gemm(x, w, acc)  # wrong
                T.copy(acc, Y[by * bm, bx * bn])

        return tilelang.compile(main, out_idx=[-1])

    def forward(self, x):
        return self.kernel(x, self.w)


if __name__ == "__main__":
    m = FusedMLP()
