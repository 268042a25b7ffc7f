"""Recurrent and chunked attention: linear attention, retention, gated delta rule, state-space scans."""

import functools

import tilelang
import tilelang.language as T

CHUNK = 64


def cdiv(a, b):
    return (a + b - 1) // b


@functools.lru_cache(maxsize=None)
def sizes(seq_len, chunk=CHUNK):
    return cdiv(seq_len, chunk), chunk


@tilelang.jit(out_idx=[4], pass_configs={"tl.disable_thread_storage_sync": False})
def linear_attention_forward(B, S, H, DK, DV, dtype="float16", scale=None, BK: int = 64, BV: int = 64):
    """One state per head, updated chunk by chunk."""
    accum_dtype = "float32"
    if scale is None:
        scale = DK**-0.5
    NT, chunk = sizes(S)
    NK = cdiv(DK, BK)
    NV = cdiv(DV, BV)

    @T.prim_func
    def main(
        Q: T.Tensor([B, S, H, DK], dtype),
        K: T.Tensor([B, S, H, DK], dtype),
        V: T.Tensor([B, S, H, DV], dtype),
        O: T.Tensor([B, S, H, DV], accum_dtype),
        final_state: T.Tensor([B, H, DK, DV], accum_dtype),
    ):
        with T.Kernel(NV, NK, B * H) as (i_v, i_k, i_bh):
            i_b = i_bh // H
            i_h = i_bh % H
            q = T.alloc_shared([chunk, BK], dtype)
            k = T.alloc_shared([chunk, BK], dtype)
            v = T.alloc_shared([chunk, BV], dtype)
            h = T.alloc_fragment([BK, BV], accum_dtype)
            h_shared = T.alloc_shared([BK, BV], dtype)
            s = T.alloc_fragment([chunk, chunk], accum_dtype)
            s_shared = T.alloc_shared([chunk, chunk], dtype)
            o = T.alloc_fragment([chunk, BV], accum_dtype)
            o_shared = T.alloc_shared([chunk, BV], accum_dtype)
            T.use_swizzle(10)
            T.clear(h)
            for i in T.Pipelined(0, NT):
                for row, col in T.Parallel(chunk, BK):
                    q[row, col] = Q[i_b, i * chunk + row, i_h, i_k * BK + col] * scale
                T.copy(K[i_b, i * chunk : (i + 1) * chunk, i_h, i_k * BK : (i_k + 1) * BK], k)
                T.copy(V[i_b, i * chunk : (i + 1) * chunk, i_h, i_v * BV : (i_v + 1) * BV], v)
                T.gemm(q, k, s, clear_accum=True, transpose_B=True)
                for row, col in T.Parallel(chunk, chunk):
                    s_shared[row, col] = T.if_then_else(row >= col, s[row, col], 0)
                T.gemm(s_shared, v, o, clear_accum=True)
                T.copy(h, h_shared)
                T.gemm(k, v, h, transpose_A=True)
                T.gemm(q, h_shared, o)
                T.copy(o, o_shared)
                for row, col in T.Parallel(chunk, BV):
                    T.atomic_add(O[i_b, i * chunk + row, i_h, i_v * BV + col], o_shared[row, col])
            T.copy(h, final_state[i_b, i_h, i_k * BK : (i_k + 1) * BK, i_v * BV : (i_v + 1) * BV])

    return main


@tilelang.jit(out_idx=[3])
def retention(batch, heads, seq_len, dim_qk, dim_v, block_M: int = 64, block_N: int = 64):
    qk_shape = [batch, seq_len, heads, dim_qk]
    v_shape = [batch, seq_len, heads, dim_v]
    dtype, accum_dtype = "float16", "float"

    @T.prim_func
    def main(
        Q: T.Tensor(qk_shape, dtype),
        K: T.Tensor(qk_shape, dtype),
        V: T.Tensor(v_shape, dtype),
        Output: T.Tensor(v_shape, dtype),
    ):
        with T.Kernel(T.ceildiv(seq_len, block_M), heads, batch, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared([block_M, dim_qk], dtype)
            K_shared = T.alloc_shared([block_N, dim_qk], dtype)
            V_shared = T.alloc_shared([block_N, dim_v], dtype)
            acc_s = T.alloc_fragment([block_M, block_N], accum_dtype)
            acc_s_shared = T.alloc_shared([block_M, block_N], dtype)
            acc_o = T.alloc_fragment([block_M, dim_v], accum_dtype)
            log_decay = T.alloc_fragment([1], "float32")
            log_decay[0] = T.log2(1 - T.exp2(-5.0 - by))
            T.copy(Q[bz, bx * block_M : (bx + 1) * block_M, by, :], Q_shared)
            T.clear(acc_o)
            for k in T.Pipelined(T.ceildiv((bx + 1) * block_M, block_N), num_stages=1):
                T.copy(K[bz, k * block_N : (k + 1) * block_N, by, :], K_shared)
                T.clear(acc_s)
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True)
                for i, j in T.Parallel(block_M, block_N):
                    distance = bx * block_M + i - (k * block_N + j)
                    acc_s[i, j] = T.if_then_else(
                        distance >= 0, acc_s[i, j] * T.exp2(distance * log_decay[0]), 0
                    )
                T.copy(acc_s, acc_s_shared)
                T.copy(V[bz, k * block_N : (k + 1) * block_N, by, :], V_shared)
                T.gemm(acc_s_shared, V_shared, acc_o)
            T.copy(acc_o, Output[bz, bx * block_M : (bx + 1) * block_M, by, :])

    return main


@tilelang.jit
def chunk_cumsum(dt, A, chunk: int = 64):
    """Running sums of `dt * A` inside each chunk, thread by thread."""
    B, S, H = T.const("B, S, H")
    dt: T.Tensor((B, S, H), T.float32)
    A: T.Tensor((H,), T.float32)
    out = T.empty((B, S, H), T.float32)
    with T.Kernel(T.ceildiv(S, chunk), H, B, threads=32) as (c, h, b):
        running = T.alloc_var(T.float32, init=0.0)
        if T.get_thread_binding() == 0:
            for t in T.serial(chunk):
                if c * chunk + t < S:
                    running += dt[b, c * chunk + t, h] * A[h]
                    out[b, c * chunk + t, h] = running
    return out


def chunk_state(batch, seqlen, heads, groups, headdim, dstate, chunk, block_M=64, block_N=64, block_K=64):
    """States of the chunks of a selective scan."""
    nchunks = T.ceildiv(seqlen, chunk)
    dtype, accum = "float16", "float32"

    @T.prim_func
    def main(
        B: T.Tensor((batch, seqlen, groups, dstate), dtype),
        x: T.Tensor((batch, seqlen, heads, headdim), dtype),
        dt: T.Tensor((batch, heads, nchunks, chunk), dtype),
        dA_cumsum: T.Tensor((batch, heads, nchunks, chunk), dtype),
        Output: T.Tensor((batch, nchunks, heads, headdim, dstate), dtype),
    ):
        with T.Kernel(
            heads,
            T.ceildiv(headdim, block_M) * T.ceildiv(dstate, block_N),
            batch * nchunks,
            threads=128,
        ) as (bz, bx, by):
            x_shared = T.alloc_shared((block_K, block_M), dtype)
            x_local = T.alloc_fragment((block_K, block_M), dtype)
            xt_local = T.alloc_fragment((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            dt_shared = T.alloc_shared((block_K,), dtype)
            dA_shared = T.alloc_shared((block_K,), dtype)
            acc = T.alloc_fragment((block_M, block_N), accum)
            weight = T.alloc_fragment((block_K,), accum)
            dA_local = T.alloc_fragment((block_K,), accum)
            dt_local = T.alloc_fragment((block_K,), accum)
            loop_range = T.ceildiv(chunk, block_K)
            batch_idx = by % batch
            chunk_idx = by // batch
            m_idx = bx // T.ceildiv(dstate, block_N)
            n_idx = bx % T.ceildiv(dstate, block_N)
            last = dA_cumsum[batch_idx, bz, chunk_idx, chunk - 1]
            T.clear(acc)
            for k in T.Pipelined(loop_range, num_stages=2):
                at = chunk_idx * chunk + k * block_K
                T.copy(x[batch_idx, at : at + block_K, bz, m_idx * block_M : (m_idx + 1) * block_M], x_shared)
                T.copy(dA_cumsum[batch_idx, bz, chunk_idx, k * block_K : (k + 1) * block_K], dA_shared)
                T.copy(dt[batch_idx, bz, chunk_idx, k * block_K : (k + 1) * block_K], dt_shared)
                T.copy(dA_shared, dA_local)
                T.copy(dt_shared, dt_local)
                for i in T.Parallel(block_K):
                    weight[i] = T.exp2((last - dA_local[i]) * 1.44269504) * dt_local[i]
                T.copy(x_shared, x_local)
                for i, j in T.Parallel(block_M, block_K):
                    xt_local[i, j] = x_local[j, i] * weight[j]
                T.copy(
                    B[
                        batch_idx,
                        at : at + block_K,
                        bz // (heads // groups),
                        n_idx * block_N : (n_idx + 1) * block_N,
                    ],
                    B_shared,
                )
                T.gemm(xt_local, B_shared, acc)
            T.copy(
                acc,
                Output[
                    batch_idx,
                    chunk_idx,
                    bz,
                    m_idx * block_M : (m_idx + 1) * block_M,
                    n_idx * block_N : (n_idx + 1) * block_N,
                ],
            )

    return main


@tilelang.jit
def delta_rule_step(S_in, q, k, v, beta, g):
    """One decoding step of the gated delta rule."""
    B, H, D = T.const("B, H, D")
    S_in: T.Tensor((B, H, D, D), T.float32)
    q: T.Tensor((B, H, D), T.bfloat16)
    k: T.Tensor((B, H, D), T.bfloat16)
    v: T.Tensor((B, H, D), T.bfloat16)
    beta: T.Tensor((B, H), T.float32)
    g: T.Tensor((B, H), T.float32)
    S_out = T.empty((B, H, D, D), T.float32)
    o = T.empty((B, H, D), T.bfloat16)
    with T.Kernel(H, B, threads=128) as (h, b):
        state = T.alloc_fragment((D, D), T.float32)
        weighted = T.alloc_fragment((D, D), T.float32)
        kv = T.alloc_fragment((D,), T.float32)
        out = T.alloc_fragment((D,), T.float32)
        T.copy(S_in[b, h, :, :], state)
        for i, j in T.Parallel(D, D):
            state[i, j] *= T.exp(g[b, h])
        for i, j in T.Parallel(D, D):
            weighted[i, j] = state[i, j] * k[b, h, i]
        T.reduce_sum(weighted, kv, dim=0)
        for i, j in T.Parallel(D, D):
            state[i, j] += k[b, h, i] * (v[b, h, j] - kv[j]) * beta[b, h]
        for i, j in T.Parallel(D, D):
            weighted[i, j] = state[i, j] * q[b, h, i]
        T.reduce_sum(weighted, out, dim=0)
        T.copy(out, o[b, h, :])
        T.copy(state, S_out[b, h, :, :])
    return S_out, o


def test_all():
    for batch, length in [(1, 256), (2, 512)]:
        linear_attention_forward(batch, length, 4, 64, 64)
        retention(batch, 4, length, 64, 64)
    tilelang.compile(chunk_state(1, 256, 4, 1, 64, 64, 64), out_idx=[4])
