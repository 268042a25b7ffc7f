"""A kernel with a planted mistake, in this style: varlen."""

import itertools
import math
import tilelang
import tilelang.language as T

SEQLENS = [5, 17, 100, 33]
CU = [0] + list(itertools.accumulate(SEQLENS))
TOTAL = CU[-1]
MAX = max(SEQLENS)
PADDED = [math.ceil(n / 64) * 64 for n in SEQLENS]
BLOCK_M, BLOCK_N, D = 64, 64, 128


@tilelang.jit(out_idx=[-1])
def varlen_attn(batch, heads, dim, causal=False):
    shape = [TOTAL, heads, dim]
    scale = (1.0 / dim) ** 0.5 * 1.44269504

    @T.prim_func
    def main(
        Q: T.Tensor(shape, "float16"),
        K: T.Tensor(shape, "float16"),
        V: T.Tensor(shape, "float16"),
        cu: T.Tensor([batch + 1], "int32"),
        O: T.Tensor(shape, "float16"),
    ):
        with T.Kernel(T.ceildiv(MAX, BLOCK_M), heads, batch, threads=128) as (bx, by, bz):
            qs = T.alloc_shared([BLOCK_M, dim], "float16")
            ks = T.alloc_shared([BLOCK_N, dim], "float16")
            vs = T.alloc_shared([BLOCK_N, dim], "float16")
            acc_s = T.alloc_fragment([BLOCK_M, BLOCK_N], "float32")
            acc_c = T.alloc_fragment([BLOCK_M, BLOCK_N], "float16")
            acc_o = T.alloc_fragment([BLOCK_M, dim // 2], "float32")
            q0 = cu[bz]
            qlen = cu[bz + 1] - q0
            T.copy(Q[q0 + bx * BLOCK_M : q0 + (bx + 1) * BLOCK_M, by, :], qs)
            T.clear(acc_o)
            for k in T.Pipelined(T.ceildiv(qlen, BLOCK_N), num_stages=1):
                T.copy(K[q0 + k * BLOCK_N : q0 + (k + 1) * BLOCK_N, by, :], ks)
                for i, j in T.Parallel(BLOCK_M, BLOCK_N):
                    acc_s[i, j] = T.if_then_else(k * BLOCK_N + j < qlen, 0, -T.infinity("float32"))
                T.gemm(qs, ks, acc_s, transpose_B=True)
                T.copy(acc_s, acc_c)
                T.copy(V[q0 + k * BLOCK_N : q0 + (k + 1) * BLOCK_N, by, :], vs)
                T.gemm(acc_c, vs, acc_o)  # wrong
            for i, d in T.Parallel(BLOCK_M, dim // 2):
                if bx * BLOCK_M + i < qlen:
                    O[q0 + bx * BLOCK_M + i, by, d] = acc_o[i, d] * scale

    return main


if __name__ == "__main__":
    varlen_attn(len(SEQLENS), 8, D)
