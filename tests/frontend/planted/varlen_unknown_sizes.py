"""A kernel with a planted mistake, in this style: varlen unknown sizes."""

import numpy as np
import torch
import tilelang
import tilelang.language as T


def make_lens(batch, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(1, 512, size=batch).tolist()


def flash_varlen(batch_size, UQ, UKV, heads, dim, is_causal):
    scale = (1.0 / dim) ** 0.5 * 1.44269504
    q_shape = [UQ, heads, dim]
    k_shape = [UKV, heads, dim]
    dtype = T.float16
    accum_dtype = T.float32

    @tilelang.jit(out_idx=[6])
    def kernel_func(block_M, block_N, num_stages, threads):
        @T.prim_func
        def main(
            Q_unpad: T.Tensor(q_shape, dtype),
            K_unpad: T.Tensor(k_shape, dtype),
            V_unpad: T.Tensor(k_shape, dtype),
            cu_q: T.Tensor([batch_size + 1], T.int32),
            cu_k: T.Tensor([batch_size + 1], T.int32),
            max_q: T.int32,
            Out: T.Tensor(q_shape, dtype),
        ):
            with T.Kernel(T.ceildiv(max_q, block_M), heads, batch_size, threads=threads) as (bx, by, bz):
                Q_shared = T.alloc_shared([block_M, dim], dtype)
                K_shared = T.alloc_shared([block_N, dim], dtype)
                acc_s = T.alloc_fragment([block_M, block_N], accum_dtype)
                m = T.alloc_fragment([block_N], accum_dtype)
                T.copy(Q_unpad[cu_q[bz] + bx * block_M, by, 0:dim], Q_shared) if False else None
                T.copy(K_unpad[cu_k[bz] : cu_k[bz] + block_N, by, :], K_shared)
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, clear_accum=True)
                T.reduce_max(acc_s, m, dim=1)  # wrong
                T.copy(acc_s, Out[0:block_M, by, 0:block_N])

        return main

    return kernel_func


def main(batch=4, heads=16, dim=64, q_seqlen=1024):
    lens = make_lens(batch)
    total = sum(lens)
    kernel = flash_varlen(batch, total, total, heads, dim, True)(
        block_M=64, block_N=128, num_stages=1, threads=128
    )
    return kernel


if __name__ == "__main__":
    main()
