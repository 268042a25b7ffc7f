"""Attention forward passes: one file with a class of options, one factory per variant, macros for the steps."""

import itertools
from dataclasses import dataclass
from functools import partial

import tilelang
import tilelang.language as T

LOG2E = 1.44269504


@dataclass(frozen=True)
class AttentionOptions:
    block_M: int = 64
    block_N: int = 64
    num_stages: int = 2
    threads: int = 128
    dtype: str = "float16"
    accum_dtype: str = "float32"

    @property
    def tile(self):
        return self.block_M, self.block_N


DEFAULT = AttentionOptions()


def configurations():
    axes = dict(block_M=[64, 128], block_N=[64], num_stages=[1, 2], threads=[128, 256])
    return [dict(zip(axes, values)) for values in itertools.product(*axes.values())]


@tilelang.autotune(configs=configurations(), warmup=5, rep=20)
@tilelang.jit(out_idx=[3], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def mha_forward(batch, heads, seq_len, dim, is_causal, block_M=64, block_N=64, num_stages=1, threads=128):
    scale = (1.0 / dim) ** 0.5 * LOG2E
    shape = [batch, seq_len, heads, dim]
    dtype, accum_dtype = "float16", "float32"

    @T.macro
    def scores(K, Q_shared, K_shared, acc_s, k, bx, by, bz):
        T.copy(K[bz, k * block_N : (k + 1) * block_N, by, :], K_shared)
        if is_causal:
            for i, j in T.Parallel(block_M, block_N):
                acc_s[i, j] = T.if_then_else(bx * block_M + i >= k * block_N + j, 0, -T.infinity(acc_s.dtype))
        else:
            T.clear(acc_s)
        T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)

    @T.macro
    def softmax(acc_s, acc_s_cast, scores_max, scores_max_prev, scores_scale, scores_sum, logsum):
        T.copy(scores_max, scores_max_prev)
        T.fill(scores_max, -T.infinity(accum_dtype))
        T.reduce_max(acc_s, scores_max, dim=1, clear=False)
        for i in T.Parallel(block_M):
            scores_max[i] = T.max(scores_max[i], scores_max_prev[i])
        for i in T.Parallel(block_M):
            scores_scale[i] = T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)
        for i, j in T.Parallel(block_M, block_N):
            acc_s[i, j] = T.exp2(acc_s[i, j] * scale - scores_max[i] * scale)
        T.reduce_sum(acc_s, scores_sum, dim=1)
        for i in T.Parallel(block_M):
            logsum[i] = logsum[i] * scores_scale[i] + scores_sum[i]
        T.copy(acc_s, acc_s_cast)

    @T.macro
    def rescale(acc_o, scores_scale):
        for i, j in T.Parallel(block_M, dim):
            acc_o[i, j] *= scores_scale[i]

    @T.prim_func
    def main(
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(shape, dtype),
        V: T.Tensor(shape, dtype),
        Output: T.Tensor(shape, dtype),
    ):
        with T.Kernel(T.ceildiv(seq_len, block_M), heads, batch, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared([block_M, dim], dtype)
            K_shared = T.alloc_shared([block_N, dim], dtype)
            V_shared = T.alloc_shared([block_N, dim], dtype)
            O_shared = T.alloc_shared([block_M, dim], dtype)
            acc_s = T.alloc_fragment([block_M, block_N], accum_dtype)
            acc_s_cast = T.alloc_fragment([block_M, block_N], dtype)
            acc_o = T.alloc_fragment([block_M, dim], accum_dtype)
            scores_max = T.alloc_fragment([block_M], accum_dtype)
            scores_max_prev = T.alloc_fragment([block_M], accum_dtype)
            scores_scale = T.alloc_fragment([block_M], accum_dtype)
            scores_sum = T.alloc_fragment([block_M], accum_dtype)
            logsum = T.alloc_fragment([block_M], accum_dtype)

            T.copy(Q[bz, bx * block_M : (bx + 1) * block_M, by, :], Q_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(scores_max, -T.infinity(accum_dtype))

            loop_range = (
                T.min(T.ceildiv(seq_len, block_N), T.ceildiv((bx + 1) * block_M, block_N))
                if is_causal
                else T.ceildiv(seq_len, block_N)
            )
            for k in T.Pipelined(loop_range, num_stages=num_stages):
                scores(K, Q_shared, K_shared, acc_s, k, bx, by, bz)
                softmax(acc_s, acc_s_cast, scores_max, scores_max_prev, scores_scale, scores_sum, logsum)
                rescale(acc_o, scores_scale)
                T.copy(V[bz, k * block_N : (k + 1) * block_N, by, :], V_shared)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                acc_o[i, j] /= logsum[i]
            T.copy(acc_o, O_shared)
            T.copy(O_shared, Output[bz, bx * block_M : (bx + 1) * block_M, by, :])

    return main


def gqa_decode(batch, heads, groups, seqlen_kv, dim, num_split, options=DEFAULT):
    """Split-KV decoding: every split writes its part, a second launch combines them."""
    scale = (1.0 / dim) ** 0.5 * LOG2E
    group_size = heads // groups
    block_H = max(16, group_size)
    block_N = options.block_N
    dtype, accum = options.dtype, options.accum_dtype
    valid = min(block_H, group_size)

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, dim), dtype),
        K: T.Tensor((batch, seqlen_kv, groups, dim), dtype),
        V: T.Tensor((batch, seqlen_kv, groups, dim), dtype),
        glse: T.Tensor((batch, heads, num_split), accum),
        partial_out: T.Tensor((batch, heads, num_split, dim), accum),
        Output: T.Tensor((batch, heads, dim), dtype),
    ):
        with T.Kernel(batch, groups, num_split, threads=options.threads) as (bx, by, bz):
            Q_shared = T.alloc_shared((block_H, dim), dtype)
            K_shared = T.alloc_shared((block_N, dim), dtype)
            V_shared = T.alloc_shared((block_N, dim), dtype)
            acc_s = T.alloc_fragment((block_H, block_N), accum)
            acc_s_cast = T.alloc_fragment((block_H, block_N), dtype)
            acc_o = T.alloc_fragment((block_H, dim), accum)
            m_now = T.alloc_fragment((block_H,), accum)
            m_old = T.alloc_fragment((block_H,), accum)
            alpha = T.alloc_fragment((block_H,), accum)
            row = T.alloc_fragment((block_H,), accum)
            total = T.alloc_fragment((block_H,), accum)
            split_length = T.ceildiv(seqlen_kv, num_split)

            T.copy(Q[bx, by * group_size : by * group_size + block_H, :], Q_shared)
            T.clear(acc_o)
            T.clear(total)
            T.fill(m_now, -T.infinity(accum))
            for k in T.Pipelined(T.ceildiv(split_length, block_N), num_stages=options.num_stages):
                start = bz * split_length + k * block_N
                T.copy(K[bx, start : start + block_N, by, :], K_shared)
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(block_H, block_N):
                    acc_s[i, j] = T.if_then_else(start + j < seqlen_kv, acc_s[i, j], -T.infinity(accum))
                T.copy(m_now, m_old)
                T.reduce_max(acc_s, m_now, dim=1, clear=False)
                for i in T.Parallel(block_H):
                    alpha[i] = T.exp2((m_old[i] - m_now[i]) * scale)
                for i, j in T.Parallel(block_H, block_N):
                    acc_s[i, j] = T.exp2((acc_s[i, j] - m_now[i]) * scale)
                T.reduce_sum(acc_s, row, dim=1)
                T.copy(acc_s, acc_s_cast)
                for i in T.Parallel(block_H):
                    total[i] = total[i] * alpha[i] + row[i]
                for i, j in T.Parallel(block_H, dim):
                    acc_o[i, j] *= alpha[i]
                T.copy(V[bx, start : start + block_N, by, :], V_shared)
                T.gemm(acc_s_cast, V_shared, acc_o)
            for i, j in T.Parallel(block_H, dim):
                acc_o[i, j] /= total[i]
            for i in T.Parallel(block_H):
                if i < valid:
                    glse[bx, by * group_size + i, bz] = T.log2(total[i]) + m_now[i] * scale
            for i, j in T.Parallel(block_H, dim):
                if i < valid:
                    partial_out[bx, by * group_size + i, bz, j] = acc_o[i, j]

        with T.Kernel(heads, batch, threads=128) as (by, bz):
            part = T.alloc_fragment((dim,), accum)
            out = T.alloc_fragment((dim,), accum)
            lse_max = T.alloc_var(accum, init=-1.0e30)
            lse_sum = T.alloc_var(accum, init=0.0)
            T.clear(out)
            for k in T.serial(num_split):
                lse_max = T.max(lse_max, glse[bz, by, k])
            for k in T.serial(num_split):
                lse_sum += T.exp2(glse[bz, by, k] - lse_max)
            for k in T.serial(num_split):
                weight = T.exp2(glse[bz, by, k] - lse_max) / lse_sum
                for i in T.Parallel(dim):
                    part[i] = partial_out[bz, by, k, i]
                for i in T.Parallel(dim):
                    out[i] += part[i] * weight
            for i in T.Parallel(dim):
                Output[bz, by, i] = out[i]

    return main


small_decode = partial(gqa_decode, 1, 32, 8, dim=128)


@tilelang.jit(out_idx=[-1])
def sliding_window(batch, heads, seq, dim, window: int, sinks: bool = True, block: int = 64):
    """Causal attention inside a window, with optional sink logits per head."""
    dtype, accum = T.bfloat16, T.float32
    scale = dim**-0.5 * LOG2E
    shape = (batch, heads, seq, dim)

    def first_block(bx):
        return T.max(0, (bx * block - window) // block)

    @T.prim_func
    def main(
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(shape, dtype),
        V: T.Tensor(shape, dtype),
        Sink: T.Tensor((heads,), dtype),
        O: T.Tensor(shape, dtype),
    ):
        with T.Kernel(T.ceildiv(seq, block), heads, batch, threads=128) as (bx, by, bz):
            q, k_tile, v_tile = (T.alloc_shared((block, dim), dtype) for _ in range(3))
            s = T.alloc_fragment((block, block), accum)
            p = T.alloc_fragment((block, block), dtype)
            o = T.alloc_fragment((block, dim), accum)
            rowmax, previous, factor, rowsum, norm = [T.alloc_fragment((block,), accum) for _ in range(5)]
            T.copy(Q[bz, by, bx * block : (bx + 1) * block, :], q)
            T.clear(o)
            T.clear(norm)
            T.fill(rowmax, -T.infinity(accum))
            start, stop = first_block(bx), T.ceildiv((bx + 1) * block, block)
            for ko in T.Pipelined(start, stop, num_stages=2):
                T.copy(K[bz, by, ko * block : (ko + 1) * block, :], k_tile)
                for i, j in T.Parallel(block, block):
                    row, column = bx * block + i, ko * block + j
                    s[i, j] = T.if_then_else(column <= row and row - column < window, 0, -T.infinity(accum))
                T.gemm(q, k_tile, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(rowmax, previous)
                T.reduce_max(s, rowmax, dim=1, clear=False)
                for i in T.Parallel(block):
                    factor[i] = T.exp2(previous[i] * scale - rowmax[i] * scale)
                for i, j in T.Parallel(block, block):
                    s[i, j] = T.exp2(s[i, j] * scale - rowmax[i] * scale)
                T.reduce_sum(s, rowsum, dim=1)
                for i in T.Parallel(block):
                    norm[i] = norm[i] * factor[i] + rowsum[i]
                for i, j in T.Parallel(block, dim):
                    o[i, j] *= factor[i]
                T.copy(s, p)
                T.copy(V[bz, by, ko * block : (ko + 1) * block, :], v_tile)
                T.gemm(p, v_tile, o, policy=T.GemmWarpPolicy.FullRow)
            if sinks:
                for i in T.Parallel(block):
                    norm[i] += T.exp2(Sink[by] * LOG2E - rowmax[i] * scale)
            for i, j in T.Parallel(block, dim):
                o[i, j] /= norm[i]
            T.copy(o, O[bz, by, bx * block : (bx + 1) * block, :])

    return main


def main(batch: int = 1, heads: int = 32, seq_len: int = 1024, dim: int = 128):
    kernel = mha_forward(batch, heads, seq_len, dim, True)
    print(kernel.get_kernel_source())
    for window in (128, 256):
        sliding_window(batch, heads, seq_len, 64, window)
    tilelang.compile(gqa_decode(batch, heads, 8, 8192, dim, 4), out_idx=[5])


if __name__ == "__main__":
    main()
