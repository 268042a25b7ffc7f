"""Work on rows: norms, softmax, losses, scans over tiles, statistics."""

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def layer_norm(M=64, N=192, block_M=8, eps=1e-5):
    @T.prim_func
    def main(
        X: T.Tensor((M, N), T.float16),
        gamma: T.Tensor((N,), T.float32),
        beta: T.Tensor((N,), T.float32),
        Y: T.Tensor((M, N), T.float16),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, N), T.float32)
            centred = T.alloc_fragment((block_M, N), T.float32)
            mean = T.alloc_fragment((block_M,), T.float32)
            variance = T.alloc_fragment((block_M,), T.float32)
            T.copy(X[bx * block_M, 0], x)
            T.reduce_sum(x, mean, dim=1)
            for i in T.Parallel(block_M):
                mean[i] = mean[i] / N
            for i, j in T.Parallel(block_M, N):
                x[i, j] = x[i, j] - mean[i]
                centred[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(centred, variance, dim=1)
            for i in T.Parallel(block_M):
                variance[i] = T.rsqrt(variance[i] / N + eps)
            for i, j in T.Parallel(block_M, N):
                Y[bx * block_M + i, j] = x[i, j] * variance[i] * gamma[j] + beta[j]

    return main


# sizes: M=48, N=160; M=50, N=200
@tilelang.jit
def online_softmax(X, block_M: int = 16, block_N: int = 64):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
        x = T.alloc_fragment((block_M, block_N), T.float32)
        best = T.alloc_fragment((block_M,), T.float32)
        before = T.alloc_fragment((block_M,), T.float32)
        part = T.alloc_fragment((block_M,), T.float32)
        total = T.alloc_fragment((block_M,), T.float32)
        T.fill(best, -T.infinity(T.float32))
        T.clear(total)
        for k in T.serial(T.ceildiv(N, block_N)):
            for i, j in T.Parallel(block_M, block_N):
                x[i, j] = T.if_then_else(
                    k * block_N + j < N, X[bx * block_M + i, k * block_N + j], -T.infinity(T.float32)
                )
            T.copy(best, before)
            T.reduce_max(x, best, dim=1, clear=False)
            for i, j in T.Parallel(block_M, block_N):
                x[i, j] = T.exp(x[i, j] - best[i])
            T.reduce_sum(x, part, dim=1)
            for i in T.Parallel(block_M):
                total[i] = total[i] * T.exp(before[i] - best[i]) + part[i]
        for k in T.serial(T.ceildiv(N, block_N)):
            T.copy(X[bx * block_M, k * block_N], x)
            for i, j in T.Parallel(block_M, block_N):
                x[i, j] = T.exp(x[i, j] - best[i]) / total[i]
            T.copy(x, Y[bx * block_M, k * block_N])
    return Y


@tilelang.jit(out_idx=[-1])
def column_sums(M=192, N=96, block_M=32, block_N=32):
    @T.prim_func
    def main(X: T.Tensor((M, N), T.float16), S: T.Tensor((N,), T.float32)):
        with T.Kernel(T.ceildiv(N, block_N), threads=128) as bx:
            x = T.alloc_shared((block_M, block_N), T.float16)
            x_local = T.alloc_fragment((block_M, block_N), T.float32)
            s = T.alloc_fragment((block_N,), T.float32)
            T.clear(s)
            for k in T.Pipelined(T.ceildiv(M, block_M), num_stages=2):
                T.copy(X[k * block_M, bx * block_N], x)
                T.copy(x, x_local)
                T.reduce_sum(x_local, s, dim=0, clear=False)
            T.copy(s, S[bx * block_N])

    return main


@tilelang.jit(out_idx=[1, 2])
def extremes(M=64, N=128, block_M=16):
    @T.prim_func
    def main(
        X: T.Tensor((M, N), T.float32),
        low: T.Tensor((M,), T.float32),
        high: T.Tensor((M,), T.float32),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=64) as bx:
            x = T.alloc_shared((block_M, N), T.float32)
            lowest = T.alloc_fragment((block_M,), T.float32)
            highest = T.alloc_fragment((block_M,), T.float32)
            T.copy(X[bx * block_M, 0], x)
            T.reduce_min(x, lowest, dim=1)
            T.reduce_max(x, highest, dim=1)
            T.copy(lowest, low[bx * block_M])
            T.copy(highest, high[bx * block_M])

    return main


# sizes: M=40, N=96; M=33, N=100
@tilelang.jit
def quantise_rows(X, block_M: int = 8, block_N: int = 128):
    """int8 rows with a scale each; rows fit in one tile."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Q = T.empty((M, N), T.int8)
    S = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
        x = T.alloc_fragment((block_M, block_N), T.float32)
        q = T.alloc_fragment((block_M, block_N), T.int8)
        top = T.alloc_fragment((block_M,), T.float32)
        scale = T.alloc_fragment((block_M,), T.float32)
        T.copy(X[bx * block_M, 0], x)
        T.reduce_absmax(x, top, dim=1)
        for i in T.Parallel(block_M):
            scale[i] = T.max(top[i], 1e-4) / 127.0
        for i, j in T.Parallel(block_M, block_N):
            q[i, j] = T.cast(T.round(x[i, j] / scale[i]), "int8")
        T.copy(q, Q[bx * block_M, 0])
        T.copy(scale, S[bx * block_M])
    return Q, S


@tilelang.jit(out_idx=[-1])
def cross_entropy(M=32, N=160, block_M=8, block_N=32):
    @T.prim_func
    def main(
        X: T.Tensor((M, N), T.float32),
        label: T.Tensor((M,), T.int32),
        loss: T.Tensor((M,), T.float32),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=64) as bx:
            x = T.alloc_fragment((block_M, block_N), T.float32)
            best = T.alloc_fragment((block_M,), T.float32)
            before = T.alloc_fragment((block_M,), T.float32)
            part = T.alloc_fragment((block_M,), T.float32)
            total = T.alloc_fragment((block_M,), T.float32)
            T.fill(best, -T.infinity("float32"))
            T.fill(total, 0)
            for k in T.serial(T.ceildiv(N, block_N)):
                T.copy(X[bx * block_M, k * block_N], x)
                T.copy(best, before)
                T.reduce_max(x, best, dim=1, clear=False)
                for i, j in T.Parallel(block_M, block_N):
                    x[i, j] = T.exp(x[i, j] - best[i])
                T.reduce_sum(x, part, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * T.exp(before[i] - best[i]) + part[i]
            for i in T.Parallel(block_M):
                row = bx * block_M + i
                loss[row] = T.log(total[i]) + best[i] - X[row, label[row] % N]

    return main


# sizes: N=96; N=100
@tilelang.jit
def mean_of_rows(X, rows: int = 48, block_N: int = 32):
    N = T.const("N")
    X: T.Tensor((rows, N), T.bfloat16)
    Y = T.empty((N,), T.bfloat16)
    with T.Kernel(T.ceildiv(N, block_N), threads=64) as bx:
        x = T.alloc_shared((rows, block_N), T.bfloat16)
        total = T.alloc_fragment((block_N,), T.float32)
        T.copy(X[0, bx * block_N], x)
        T.clear(total)
        for r in T.serial(rows):
            for j in T.Parallel(block_N):
                total[j] += T.cast(x[r, j], T.float32)
        for j in T.Parallel(block_N):
            total[j] = total[j] * (1.0 / rows)
        T.copy(total, Y[bx * block_N])
    return Y


@tilelang.jit(out_idx=[-1])
def group_norm(B=4, G=4, C=16, L=32, eps=1e-5):
    @T.prim_func
    def main(X: T.Tensor((B, G, C, L), T.float32), Y: T.Tensor((B, G, C, L), T.float32)):
        with T.Kernel(G, B, threads=128) as (bg, bb):
            x = T.alloc_fragment((C, L), T.float32)
            square = T.alloc_fragment((C, L), T.float32)
            row = T.alloc_fragment((C,), T.float32)
            mean = T.alloc_fragment((1,), T.float32)
            variance = T.alloc_fragment((1,), T.float32)
            T.copy(X[bb, bg, 0, 0], x)
            T.reduce_sum(x, row, dim=1)
            T.reduce_sum(row, mean, dim=0)
            for i, j in T.Parallel(C, L):
                x[i, j] = x[i, j] - mean[0] / (C * L)
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, row, dim=1)
            T.reduce_sum(row, variance, dim=0)
            for i, j in T.Parallel(C, L):
                x[i, j] = x[i, j] * T.rsqrt(variance[0] / (C * L) + eps)
            T.copy(x, Y[bb, bg, 0, 0])

    return main
