"""Matrix products as people write them: eager and lazy, transposed, split, batched, grouped, dequantised."""

import tilelang
import tilelang.language as T


# sizes: M=128, N=192, K=96; M=100, N=136, K=72
@tilelang.jit
def matmul_bias(A, B, bias, block_M: int = 64, block_N: int = 64, block_K: int = 32):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    bias: T.Tensor((N,), T.float32)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        bias_local = T.alloc_fragment((block_N,), T.float32)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.copy(bias[bx * block_N], bias_local)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        for i, j in T.Parallel(block_M, block_N):
            C_local[i, j] = C_local[i, j] + bias_local[j]
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


@tilelang.jit(out_idx=[2])
def linear(M=256, N=384, K=128, block_M=64, block_N=128, block_K=64, threads=128, dtype="float16"):
    @T.prim_func
    def main(
        X: T.Tensor((M, K), dtype),
        W: T.Tensor((N, K), dtype),
        Y: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            X_shared = T.alloc_shared((block_M, block_K), dtype)
            W_shared = T.alloc_shared((block_N, block_K), dtype)
            Y_shared = T.alloc_shared((block_M, block_N), dtype)
            Y_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(Y_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(X[by * block_M, k * block_K], X_shared)
                T.copy(W[bx * block_N, k * block_K], W_shared)
                T.gemm(X_shared, W_shared, Y_local, transpose_B=True)
            T.copy(Y_local, Y_shared)
            T.copy(Y_shared, Y[by * block_M, bx * block_N])

    return main


@tilelang.jit(out_idx=[-1])
def left_transposed(M=128, N=192, K=160):
    @T.prim_func
    def main(
        A: T.Tensor((K, M), T.bfloat16),
        B: T.Tensor((K, N), T.bfloat16),
        C: T.Tensor((M, N), T.float32),
    ):
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
            a = T.alloc_shared((32, 64), T.bfloat16)
            b = T.alloc_shared((32, 64), T.bfloat16)
            c = T.alloc_fragment((64, 64), T.float32)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
                T.copy(A[k * 32 : (k + 1) * 32, by * 64 : (by + 1) * 64], a)
                T.copy(B[k * 32 : (k + 1) * 32, bx * 64 : (bx + 1) * 64], b)
                T.gemm(a, b, c, transpose_A=True, clear_accum=k == 0)
            T.copy(c, C[by * 64 : (by + 1) * 64, bx * 64 : (bx + 1) * 64])

    return main


@tilelang.jit(out_idx=[-1])
def batched(batch=3, M=64, N=96, K=64):
    @T.prim_func
    def main(
        A: T.Tensor((batch, M, K), T.float16),
        B: T.Tensor((batch, N, K), T.float16),
        C: T.Tensor((batch, M, N), T.float32),
    ):
        with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 64), batch, threads=128) as (bx, by, bz):
            a = T.alloc_shared((64, 32), T.float16)
            b = T.alloc_shared((32, 32), T.float16)
            c = T.alloc_fragment((64, 32), T.float32)
            T.clear(c)
            for k in T.Pipelined(K // 32, num_stages=2):
                T.copy(A[bz, by * 64, k * 32], a)
                T.copy(B[bz, bx * 32, k * 32], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[bz, by * 64, bx * 32])

    return main


@tilelang.jit(out_idx=[-1])
def split_k(M=64, N=128, K=256, splits=2, block_K=32):
    part = K // splits

    @T.prim_func
    def main(
        A: T.Tensor((M, K), T.float16),
        B: T.Tensor((K, N), T.float16),
        partial: T.Tensor((splits, M, N), T.float32),
    ):
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), splits, threads=128) as (bx, by, bz):
            a = T.alloc_shared((64, block_K), T.float16)
            b = T.alloc_shared((block_K, 64), T.float16)
            c = T.alloc_fragment((64, 64), T.float32)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(part, block_K), num_stages=2):
                T.copy(A[by * 64, bz * part + k * block_K], a)
                T.copy(B[bz * part + k * block_K, bx * 64], b)
                T.gemm(a, b, c)
            T.copy(c, partial[bz, by * 64, bx * 64])

    return main


@tilelang.jit(out_idx=[-1])
def sum_of_splits(splits=4, M=96, N=80, block_M=32, block_N=32):
    @T.prim_func
    def main(
        partial: T.Tensor((splits, M, N), T.float32),
        C: T.Tensor((M, N), T.float16),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            total = T.alloc_fragment((block_M, block_N), T.float32)
            part = T.alloc_fragment((block_M, block_N), T.float32)
            T.clear(total)
            for s in T.serial(splits):
                T.copy(partial[s, by * block_M, bx * block_N], part)
                for i, j in T.Parallel(block_M, block_N):
                    total[i, j] += part[i, j]
            T.copy(total, C[by * block_M, bx * block_N])

    return main


# sizes: M=100
@tilelang.jit(out_idx=[-1])
def dynamic_rows(N=128, K=96, block_M=64, block_N=64, block_K=32):
    M = T.dynamic("M")

    @T.prim_func
    def main(
        A: T.Tensor((M, K), T.float16),
        B: T.Tensor((K, N), T.float16),
        C: T.Tensor((M, N), T.float16),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), T.float16)
            B_shared = T.alloc_shared((block_K, block_N), T.float16)
            C_local = T.alloc_fragment((block_M, block_N), T.float32)
            T.use_swizzle(panel_size=4)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local, policy=T.GemmWarpPolicy.FullRow)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


@tilelang.jit(out_idx=[-1])
def int8_scaled(M=128, N=128, K=128):
    """int8 products with one scale per row of A and per column of B."""

    @T.prim_func
    def main(
        A: T.Tensor((M, K), T.int8),
        B: T.Tensor((N, K), T.int8),
        scale_a: T.Tensor((M,), T.float32),
        scale_b: T.Tensor((N,), T.float32),
        C: T.Tensor((M, N), T.float32),
    ):
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
            a = T.alloc_shared((64, 64), T.int8)
            b = T.alloc_shared((64, 64), T.int8)
            c = T.alloc_fragment((64, 64), T.int32)
            out = T.alloc_fragment((64, 64), T.float32)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
                T.copy(A[by * 64, k * 64], a)
                T.copy(B[bx * 64, k * 64], b)
                T.gemm(a, b, c, transpose_B=True)
            for i, j in T.Parallel(64, 64):
                out[i, j] = c[i, j] * scale_a[by * 64 + i] * scale_b[bx * 64 + j]
            T.copy(out, C[by * 64, bx * 64])

    return main


@tilelang.jit(out_idx=[-1])
def weight_only(M=64, N=128, K=128, group=32, block_K=32):
    """Weights of four bits, two in a byte, with a scale for each group of K."""

    @T.prim_func
    def main(
        A: T.Tensor((M, K), T.float16),
        W: T.Tensor((N, K // 2), T.uint8),
        scale: T.Tensor((N, K // group), T.float16),
        C: T.Tensor((M, N), T.float16),
    ):
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
            a = T.alloc_shared((64, block_K), T.float16)
            packed = T.alloc_shared((64, block_K // 2), T.uint8)
            w_local = T.alloc_fragment((64, block_K), T.float16)
            w = T.alloc_shared((64, block_K), T.float16)
            c = T.alloc_fragment((64, 64), T.float32)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * 64, k * block_K], a)
                T.copy(W[bx * 64, k * block_K // 2], packed)
                for i, j in T.Parallel(64, block_K):
                    nibble = (T.cast(packed[i, j // 2], "int32") >> (j % 2 * 4)) & 15
                    w_local[i, j] = T.cast(nibble - 8, "float16") * scale[bx * 64 + i, k * block_K // group]
                T.copy(w_local, w)
                T.gemm(a, w, c, transpose_B=True)
            T.copy(c, C[by * 64, bx * 64])

    return main


@tilelang.jit(out_idx=[-1])
def two_products(M=64, N=64, K=96, L=64):
    """(A B) D: the first product stays in registers."""

    @T.prim_func
    def main(
        A: T.Tensor((M, K), T.float16),
        B: T.Tensor((K, N), T.float16),
        D: T.Tensor((N, L), T.float16),
        E: T.Tensor((M, L), T.float16),
    ):
        with T.Kernel(T.ceildiv(L, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
            a = T.alloc_shared((64, 32), T.float16)
            b = T.alloc_shared((32, N), T.float16)
            d = T.alloc_shared((N, 64), T.float16)
            first = T.alloc_fragment((64, N), T.float32)
            half = T.alloc_fragment((64, N), T.float16)
            second = T.alloc_fragment((64, 64), T.float32)
            T.clear(first)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
                T.copy(A[by * 64, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, first, policy=T.GemmWarpPolicy.FullRow)
            T.copy(first, half)
            T.copy(D[0:N, bx * 64 : bx * 64 + 64], d)
            T.clear(second)
            T.gemm(half, d, second, policy=T.GemmWarpPolicy.FullRow)
            T.copy(second, E[by * 64, bx * 64])

    return main


# sizes: M=48, N=96, K=80
@tilelang.jit
def matvec(W, x, block_N: int = 16, block_K: int = 32):
    N, K = T.const("N, K")
    W: T.Tensor((N, K), T.float16)
    x: T.Tensor((K,), T.float16)
    y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), threads=64) as bn:
        w = T.alloc_fragment((block_N, block_K), T.float32)
        v = T.alloc_fragment((block_K,), T.float32)
        part = T.alloc_fragment((block_N,), T.float32)
        total = T.alloc_fragment((block_N,), T.float32)
        T.clear(total)
        for k in T.serial(T.ceildiv(K, block_K)):
            T.copy(W[bn * block_N, k * block_K], w)
            T.copy(x[k * block_K], v)
            for i, j in T.Parallel(block_N, block_K):
                w[i, j] = w[i, j] * v[j]
            T.reduce_sum(w, part, dim=1)
            for i in T.Parallel(block_N):
                total[i] += part[i]
        T.copy(total, y[bn * block_N])
    return y


@T.macro
def load_pair(A, B, a, b, by, bx, k):
    T.copy(A[by * 32, k * 32], a)
    T.copy(B[k * 32, bx * 32], b)


# sizes: M=64, N=96, K=64; M=40, N=50, K=72
@tilelang.jit
def with_macro(A, B):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32), threads=64) as (bx, by):
        a = T.alloc_shared((32, 32), T.float16)
        b = T.alloc_shared((32, 32), T.float16)
        c = T.alloc_fragment((32, 32), T.float32)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
            load_pair(A, B, a, b, by, bx, k)
            T.gemm(a, b, c, clear_accum=k == 0)
        T.copy(c, C[by * 32, bx * 32])
    return C
