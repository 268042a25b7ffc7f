"""Attention and its relatives: forward, causal, decoding, linear, a state that goes along a sequence."""

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[3])
def attention(heads=2, length=128, dim=64, causal=False, block_M=64, block_N=32):
    scale = (1.0 / dim) ** 0.5 * 1.44269504
    shape = [length, heads, dim]

    @T.prim_func
    def main(
        Q: T.Tensor(shape, "float16"),
        K: T.Tensor(shape, "float16"),
        V: T.Tensor(shape, "float16"),
        Output: T.Tensor(shape, "float16"),
    ):
        with T.Kernel(T.ceildiv(length, block_M), heads, threads=128) as (bx, by):
            Q_shared = T.alloc_shared([block_M, dim], "float16")
            K_shared = T.alloc_shared([block_N, dim], "float16")
            V_shared = T.alloc_shared([block_N, dim], "float16")
            acc_s = T.alloc_fragment([block_M, block_N], "float32")
            acc_s_cast = T.alloc_fragment([block_M, block_N], "float16")
            acc_o = T.alloc_fragment([block_M, dim], "float32")
            scores_max = T.alloc_fragment([block_M], "float32")
            scores_max_prev = T.alloc_fragment([block_M], "float32")
            scores_scale = T.alloc_fragment([block_M], "float32")
            scores_sum = T.alloc_fragment([block_M], "float32")
            logsum = T.alloc_fragment([block_M], "float32")
            T.copy(Q[bx * block_M : (bx + 1) * block_M, by, :], Q_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(scores_max, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv(length, block_N), num_stages=2):
                T.copy(K[k * block_N : (k + 1) * block_N, by, :], K_shared)
                if causal:
                    for i, j in T.Parallel(block_M, block_N):
                        acc_s[i, j] = T.if_then_else(
                            bx * block_M + i >= k * block_N + j, 0, -T.infinity("float32")
                        )
                else:
                    T.clear(acc_s)
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(scores_max, scores_max_prev)
                T.reduce_max(acc_s, scores_max, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    scores_scale[i] = T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)
                for i, j in T.Parallel(block_M, block_N):
                    acc_s[i, j] = T.exp2(acc_s[i, j] * scale - scores_max[i] * scale)
                T.reduce_sum(acc_s, scores_sum, dim=1)
                for i in T.Parallel(block_M):
                    logsum[i] = logsum[i] * scores_scale[i] + scores_sum[i]
                T.copy(acc_s, acc_s_cast)
                for i, j in T.Parallel(block_M, dim):
                    acc_o[i, j] *= scores_scale[i]
                T.copy(V[k * block_N : (k + 1) * block_N, by, :], V_shared)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                acc_o[i, j] /= logsum[i]
            T.copy(acc_o, Output[bx * block_M : (bx + 1) * block_M, by, :])

    return main


# sizes: N=96; N=100
@tilelang.jit
def causal_attention(Q, K, V, block: int = 32, dim: int = 32):
    N = T.const("N")
    Q: T.Tensor((N, dim), T.float16)
    K: T.Tensor((N, dim), T.float16)
    V: T.Tensor((N, dim), T.float16)
    Out = T.empty((N, dim), T.float16)
    with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
        q = T.alloc_shared((block, dim), T.float16)
        k = T.alloc_shared((block, dim), T.float16)
        v = T.alloc_shared((block, dim), T.float16)
        s = T.alloc_fragment((block, block), T.float32)
        p = T.alloc_fragment((block, block), T.float16)
        o = T.alloc_fragment((block, dim), T.float32)
        m = T.alloc_fragment((block,), T.float32)
        m_old = T.alloc_fragment((block,), T.float32)
        part = T.alloc_fragment((block,), T.float32)
        total = T.alloc_fragment((block,), T.float32)
        T.copy(Q[bx * block, 0], q)
        T.clear(o)
        T.clear(total)
        T.fill(m, -T.infinity(T.float32))
        for t in T.Pipelined(bx + 1, num_stages=2):
            T.copy(K[t * block, 0], k)
            T.clear(s)
            T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            T.copy(m, m_old)
            for i, j in T.Parallel(block, block):
                s[i, j] = T.if_then_else(t * block + j <= bx * block + i, s[i, j], -T.infinity(T.float32))
            T.reduce_max(s, m, dim=1, clear=False)
            for i, j in T.Parallel(block, block):
                s[i, j] = T.exp(s[i, j] - m[i])
            T.reduce_sum(s, part, dim=1)
            for i in T.Parallel(block):
                total[i] = total[i] * T.exp(m_old[i] - m[i]) + part[i]
            for i, j in T.Parallel(block, dim):
                o[i, j] *= T.exp(m_old[i] - m[i])
            T.copy(s, p)
            T.copy(V[t * block, 0], v)
            T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullRow)
        for i, j in T.Parallel(block, dim):
            o[i, j] = o[i, j] / total[i]
        T.copy(o, Out[bx * block, 0])
    return Out


@tilelang.jit(out_idx=[-1])
def linear_attention(heads=2, length=128, dim=32, chunk=32):
    """State S += K^T V along the sequence; each chunk reads Q S."""

    @T.prim_func
    def main(
        Q: T.Tensor((heads, length, dim), T.float16),
        K: T.Tensor((heads, length, dim), T.float16),
        V: T.Tensor((heads, length, dim), T.float16),
        Out: T.Tensor((heads, length, dim), T.float32),
    ):
        with T.Kernel(heads, threads=128) as bh:
            q = T.alloc_shared((chunk, dim), T.float16)
            k = T.alloc_shared((chunk, dim), T.float16)
            v = T.alloc_shared((chunk, dim), T.float16)
            state = T.alloc_fragment((dim, dim), T.float32)
            state_shared = T.alloc_shared((dim, dim), T.float16)
            o = T.alloc_fragment((chunk, dim), T.float32)
            T.clear(state)
            for c in T.Pipelined(T.ceildiv(length, chunk), num_stages=1):
                T.copy(Q[bh, c * chunk, 0], q)
                T.copy(K[bh, c * chunk, 0], k)
                T.copy(V[bh, c * chunk, 0], v)
                T.gemm(k, v, state, transpose_A=True)
                T.copy(state, state_shared)
                T.clear(o)
                T.gemm(q, state_shared, o)
                T.copy(o, Out[bh, c * chunk, 0])

    return main


@tilelang.jit(out_idx=[-1])
def decode_scores(batch=3, heads=16, length=96, dim=64, block=32):
    """Scores of one query position against a cache, sixteen heads at once."""

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, dim), T.float16),
        cache: T.Tensor((batch, length, dim), T.float16),
        S: T.Tensor((batch, heads, length), T.float32),
    ):
        with T.Kernel(T.ceildiv(length, block), batch, threads=64) as (bx, bb):
            q = T.alloc_shared((heads, dim), T.float16)
            c = T.alloc_shared((block, dim), T.float16)
            s = T.alloc_fragment((heads, block), T.float32)
            T.copy(Q[bb, 0, 0], q)
            T.copy(cache[bb, bx * block, 0], c)
            T.clear(s)
            T.gemm(q, c, s, transpose_B=True)
            for i, j in T.Parallel(heads, block):
                s[i, j] = s[i, j] * 0.125
            T.copy(s, S[bb, 0, bx * block])

    return main


@tilelang.jit(out_idx=[-1])
def scan_of_chunks(batch=2, length=64, dim=48, chunk=16):
    """h = decay * h + sum over the chunk, written after every chunk."""

    @T.prim_func
    def main(
        X: T.Tensor((batch, length, dim), T.float32),
        decay: T.Tensor((dim,), T.float32),
        H: T.Tensor((batch, length // chunk, dim), T.float32),
    ):
        with T.Kernel(batch, threads=64) as bb:
            x = T.alloc_fragment((chunk, dim), T.float32)
            h = T.alloc_fragment((dim,), T.float32)
            part = T.alloc_fragment((dim,), T.float32)
            T.clear(h)
            for c in T.serial(length // chunk):
                T.copy(X[bb, c * chunk, 0], x)
                T.reduce_sum(x, part, dim=0)
                for j in T.Parallel(dim):
                    h[j] = h[j] * decay[j] + part[j]
                T.copy(h, H[bb, c, 0])

    return main
