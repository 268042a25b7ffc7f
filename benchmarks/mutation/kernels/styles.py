"""Kernels in styles of other authors: literal sizes, grouped heads, experts, taps, scans, sequences."""

import tilelang
import tilelang.language as T

ROWS, COLUMNS, DEPTH = 128, 256, 128


@tilelang.jit(out_idx=[2])
def literal_gemm():
    """A square product in numbers, no name for any size."""

    @T.prim_func
    def main(
        A: T.Tensor((128, 128), "float16"),
        B: T.Tensor((128, 128), "float16"),
        C: T.Tensor((128, 128), "float16"),
    ):
        with T.Kernel(2, 2, threads=128) as (bx, by):
            A_shared = T.alloc_shared((64, 32), "float16")
            B_shared = T.alloc_shared((32, 64), "float16")
            C_local = T.alloc_fragment((64, 64), "float32")
            T.clear(C_local)
            for ko in T.Pipelined(4, num_stages=2):
                T.copy(A[by * 64, ko * 32], A_shared)
                T.copy(B[ko * 32, bx * 64], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * 64, bx * 64])

    return main


@tilelang.jit
def eager_linear_relu(X, W, bias):
    """Sizes from the module, results by T.empty."""
    X: T.Tensor((ROWS, DEPTH), T.bfloat16)
    W: T.Tensor((COLUMNS, DEPTH), T.bfloat16)
    bias: T.Tensor((COLUMNS,), T.float32)
    Y = T.empty((ROWS, COLUMNS), T.bfloat16)
    with T.Kernel(COLUMNS // 64, ROWS // 64, threads=128) as (pid_n, pid_m):
        x = T.alloc_shared((64, 64), T.bfloat16)
        w = T.alloc_shared((64, 64), T.bfloat16)
        acc = T.alloc_fragment((64, 64), T.float32)
        T.fill(acc, 0.0)
        for k in T.Pipelined(DEPTH // 64, num_stages=2):
            T.copy(X[pid_m * 64 : pid_m * 64 + 64, k * 64 : k * 64 + 64], x)
            T.copy(W[pid_n * 64 : pid_n * 64 + 64, k * 64 : k * 64 + 64], w)
            T.gemm(x, w, acc, transpose_B=True)
        for i, j in T.Parallel(64, 64):
            acc[i, j] = T.max(acc[i, j] + bias[pid_n * 64 + j], 0)
        T.copy(acc, Y[pid_m * 64 : pid_m * 64 + 64, pid_n * 64 : pid_n * 64 + 64])
    return Y


@tilelang.jit(out_idx=[3])
def grouped_query_attention(batch=2, heads=4, kv_heads=2, seq=64, dim=64, block_M=32, block_N=32):
    """Several heads of Q share one of K and V."""
    groups = heads // kv_heads
    scale = (1.0 / dim) ** 0.5 * 1.44269504

    @T.prim_func
    def main(
        Q: T.Tensor((batch, seq, heads, dim), T.float16),
        K: T.Tensor((batch, seq, kv_heads, dim), T.float16),
        V: T.Tensor((batch, seq, kv_heads, dim), T.float16),
        Output: T.Tensor((batch, seq, heads, dim), T.float16),
    ):
        with T.Kernel(T.ceildiv(seq, block_M), heads, batch, threads=64) as (bx, by, bz):
            q = T.alloc_shared((block_M, dim), T.float16)
            k = T.alloc_shared((block_N, dim), T.float16)
            v = T.alloc_shared((block_N, dim), T.float16)
            s = T.alloc_fragment((block_M, block_N), T.float32)
            p = T.alloc_fragment((block_M, block_N), T.float16)
            o = T.alloc_fragment((block_M, dim), T.float32)
            m = T.alloc_fragment((block_M,), T.float32)
            m_prev = T.alloc_fragment((block_M,), T.float32)
            alpha = T.alloc_fragment((block_M,), T.float32)
            row = T.alloc_fragment((block_M,), T.float32)
            total = T.alloc_fragment((block_M,), T.float32)
            head = by // groups
            T.copy(Q[bz, bx * block_M : (bx + 1) * block_M, by, :], q)
            T.clear(o)
            T.clear(total)
            T.fill(m, -T.infinity(T.float32))
            for n in T.Pipelined(T.ceildiv(seq, block_N), num_stages=2):
                T.copy(K[bz, n * block_N : (n + 1) * block_N, head, :], k)
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(m, m_prev)
                T.reduce_max(s, m, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    alpha[i] = T.exp2((m_prev[i] - m[i]) * scale)
                for i, j in T.Parallel(block_M, block_N):
                    s[i, j] = T.exp2((s[i, j] - m[i]) * scale)
                T.reduce_sum(s, row, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * alpha[i] + row[i]
                T.copy(s, p)
                for i, j in T.Parallel(block_M, dim):
                    o[i, j] = o[i, j] * alpha[i]
                T.copy(V[bz, n * block_N : (n + 1) * block_N, head, :], v)
                T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                o[i, j] = o[i, j] / total[i]
            T.copy(o, Output[bz, bx * block_M : (bx + 1) * block_M, by, :])

    return main


@tilelang.jit(out_idx=[3])
def experts_gemm(tokens=128, experts=4, N=64, K=64, block_M=32, block_N=32, block_K=32):
    """Rows sorted by expert; which one a block of rows belongs to stands in a table."""

    @T.prim_func
    def main(
        X: T.Tensor((tokens, K), T.float16),
        W: T.Tensor((experts, N, K), T.float16),
        expert_of: T.Tensor((tokens // block_M,), T.int32),
        Y: T.Tensor((tokens, N), T.float16),
    ):
        with T.Kernel(T.ceildiv(tokens, block_M), T.ceildiv(N, block_N), threads=64) as (bm, bn):
            x = T.alloc_shared((block_M, block_K), T.float16)
            w = T.alloc_shared((block_N, block_K), T.float16)
            y = T.alloc_fragment((block_M, block_N), T.float32)
            e = expert_of[bm] % experts
            T.clear(y)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(X[bm * block_M, k * block_K], x)
                T.copy(W[e, bn * block_N, k * block_K], w)
                T.gemm(x, w, y, transpose_B=True)
            T.copy(y, Y[bm * block_M, bn * block_N])

    return main


@tilelang.jit(out_idx=[2])
def convolution(N=1, H=8, W=8, C=32, F=32, kernel=3, block=32):
    """A convolution with padding 1 as one product per tap of the kernel."""

    @T.prim_func
    def main(
        data: T.Tensor((N, H + 2, W + 2, C), T.float16),
        weight: T.Tensor((kernel, kernel, C, F), T.float16),
        out: T.Tensor((N, H, W, F), T.float16),
    ):
        with T.Kernel(T.ceildiv(F, block), H, N, threads=64) as (bf, bh, bn):
            d = T.alloc_shared((16, C), T.float16)
            w = T.alloc_shared((C, block), T.float16)
            acc = T.alloc_fragment((16, block), T.float32)
            T.clear(acc)
            for kh in T.serial(kernel):
                for kw in T.serial(kernel):
                    for i, j in T.Parallel(16, C):
                        d[i, j] = T.if_then_else(i < W, data[bn, bh + kh, i + kw, j], 0)
                    T.copy(weight[kh, kw, :, bf * block : (bf + 1) * block], w)
                    T.gemm(d, w, acc)
            for i, j in T.Parallel(16, block):
                if i < W:
                    out[bn, bh, i, bf * block + j] = acc[i, j]

    return main


@tilelang.jit(out_idx=[1])
def cumulative(M=32, N=64, block_M=8):
    """A scan along the rows, in shared memory."""

    @T.prim_func
    def main(X: T.Tensor((M, N), T.float32), Y: T.Tensor((M, N), T.float32)):
        with T.Kernel(T.ceildiv(M, block_M), threads=64) as bx:
            x = T.alloc_shared((block_M, N), T.float32)
            T.copy(X[bx * block_M, 0], x)
            T.cumsum(x, dim=1)
            T.copy(x, Y[bx * block_M, 0])

    return main


# sizes: total=96, B=3
@tilelang.jit
def sum_of_sequences(X, starts, lengths, dim: int = 64, block: int = 16):
    """Sequences of several lengths in one tensor, summed each on its own."""
    total, B = T.const("total, B")
    X: T.Tensor((total, dim), T.float32)
    starts: T.Tensor((B,), T.int32)
    lengths: T.Tensor((B,), T.int32)
    Y = T.empty((B, dim), T.float32)
    with T.Kernel(B, threads=64) as b:
        x = T.alloc_fragment((block, dim), T.float32)
        part = T.alloc_fragment((dim,), T.float32)
        acc = T.alloc_fragment((dim,), T.float32)
        first = starts[b]
        last = first + lengths[b]
        T.clear(acc)
        for t in T.serial(T.ceildiv(lengths[b], block)):
            for i, j in T.Parallel(block, dim):
                x[i, j] = T.if_then_else(first + t * block + i < last, X[first + t * block + i, j], 0.0)
            T.reduce_sum(x, part, dim=0)
            for j in T.Parallel(dim):
                acc[j] += part[j]
        T.copy(acc, Y[b, 0])
    return Y


@tilelang.jit(out_idx=[2])
def rms_norm_residual():
    """Literal sizes again, one row per block, the statistics in a fragment of one element."""

    @T.prim_func
    def main(
        X: T.Tensor((64, 256), "float32"),
        weight: T.Tensor((256,), "float32"),
        Y: T.Tensor((64, 256), "float32"),
    ):
        with T.Kernel(16, threads=128) as bx:
            x = T.alloc_shared((4, 256), "float32")
            local = T.alloc_fragment((4, 256), "float32")
            square = T.alloc_fragment((4, 256), "float32")
            mean = T.alloc_fragment((4,), "float32")
            T.copy(X[bx * 4 : (bx + 1) * 4, :], x)
            T.copy(x, local)
            for i, j in T.Parallel(4, 256):
                square[i, j] = local[i, j] * local[i, j]
            T.reduce_sum(square, mean, dim=1)
            for i in T.Parallel(4):
                mean[i] = T.rsqrt(mean[i] / 256 + 1e-6)
            for i, j in T.Parallel(4, 256):
                local[i, j] = local[i, j] * mean[i] * weight[j] + x[i, j]
            T.copy(local, Y[bx * 4 : (bx + 1) * 4, :])

    return main


# sizes: M=64, K=128, N=64
@tilelang.jit
def split_k_atomic(A, B, C, splits: int = 2, block: int = 32):
    """Every split adds its part to the result."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C: T.Tensor((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), splits, threads=64) as (bx, by, bz):
        a = T.alloc_shared((block, block), T.float16)
        b = T.alloc_shared((block, block), T.float16)
        c = T.alloc_fragment((block, block), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K // splits, block), num_stages=2):
            T.copy(A[by * block, bz * (K // splits) + k * block], a)
            T.copy(B[bz * (K // splits) + k * block, bx * block], b)
            T.gemm(a, b, c)
        T.atomic_add(C[by * block, bx * block], c)
