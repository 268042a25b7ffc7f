"""Element by element, moves and gathers: activations, transposes, rotary embedding, stencils, tables."""

import tilelang
import tilelang.language as T


# sizes: M=64, N=96; M=70, N=90
@tilelang.jit
def transpose(A, block: int = 32):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float16)
    B = T.empty((N, M), T.float16)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
        tile = T.alloc_shared((block, block), T.float16)
        turned = T.alloc_shared((block, block), T.float16)
        T.copy(A[by * block, bx * block], tile)
        for i, j in T.Parallel(block, block):
            turned[j, i] = tile[i, j]
        T.copy(turned, B[bx * block, by * block])
    return B


@tilelang.jit(out_idx=[-1])
def swiglu(M=96, N=128, block_M=16, block_N=64):
    @T.prim_func
    def main(X: T.Tensor((M, 2 * N), T.float16), Y: T.Tensor((M, N), T.float16)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            gate = T.alloc_fragment((block_M, block_N), T.float32)
            up = T.alloc_fragment((block_M, block_N), T.float32)
            T.copy(X[by * block_M, bx * block_N], gate)
            T.copy(X[by * block_M, N + bx * block_N], up)
            for i, j in T.Parallel(block_M, block_N):
                up[i, j] = gate[i, j] / (1.0 + T.exp(-gate[i, j])) * up[i, j]
            T.copy(up, Y[by * block_M, bx * block_N])

    return main


@tilelang.jit
def rotary(S=64, H=3, D=32, block=16):
    half = D // 2

    @T.prim_func
    def main(
        X: T.Tensor((S, H, D), T.float32),
        cos: T.Tensor((S, half), T.float32),
        sin: T.Tensor((S, half), T.float32),
        Y: T.Tensor((S, H, D), T.float32),
    ):
        with T.Kernel(T.ceildiv(S, block), H, threads=128) as (bx, by):
            for i, j in T.Parallel(block, half):
                row = bx * block + i
                left = X[row, by, j]
                right = X[row, by, j + half]
                Y[row, by, j] = left * cos[row, j] - right * sin[row, j]
                Y[row, by, j + half] = right * cos[row, j] + left * sin[row, j]

    return main


# sizes: N=256; N=200
@tilelang.jit
def blur(A, block: int = 64):
    N = T.dynamic("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
        window = T.alloc_shared((block + 2,), T.float32)
        for i in T.Parallel(block + 2):
            window[i] = A[bx * block + i - 1]
        for i in T.Parallel(block):
            B[bx * block + i] = (window[i] + window[i + 1] + window[i + 2]) / 3.0
    return B


@tilelang.jit(out_idx=[-1])
def embedding(V=50, D=64, L=32, block=8):
    @T.prim_func
    def main(
        table: T.Tensor((V, D), T.float16),
        ids: T.Tensor((L,), T.int32),
        out: T.Tensor((L, D), T.float16),
    ):
        with T.Kernel(T.ceildiv(L, block), threads=64) as bx:
            for i, j in T.Parallel(block, D):
                out[bx * block + i, j] = table[ids[bx * block + i] % V, j]

    return main


# sizes: M=64, N=80; M=60, N=90
@tilelang.jit
def masked_scale(A, mask, scale: float = 0.5, block_M: int = 16, block_N: int = 32):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.bfloat16)
    mask: T.Tensor((M, N), T.int8)
    B = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        a = T.alloc_shared((block_M, block_N), T.bfloat16)
        b = T.alloc_fragment((block_M, block_N), T.float32)
        T.copy(A[by * block_M : (by + 1) * block_M, bx * block_N : (bx + 1) * block_N], a)
        for i, j in T.Parallel(block_M, block_N):
            if mask[by * block_M + i, bx * block_N + j] > 0:
                b[i, j] = a[i, j] * scale
            else:
                b[i, j] = 0
        T.copy(b, B[by * block_M, bx * block_N])
    return B


@tilelang.jit(out_idx=[-1])
def padded(M=40, N=48, block=16):
    """A frame of two zeros around a matrix: blocks over the output, reads outside the input give zero."""

    @T.prim_func
    def main(A: T.Tensor((M, N), T.float32), B: T.Tensor((M + 4, N + 4), T.float32)):
        with T.Kernel(T.ceildiv(N + 4, block), T.ceildiv(M + 4, block), threads=64) as (bx, by):
            tile = T.alloc_shared((block, block), T.float32)
            for i, j in T.Parallel(block, block):
                tile[i, j] = A[by * block + i - 2, bx * block + j - 2]
            T.copy(tile, B[by * block, bx * block])

    return main


# sizes: M=48, N=64
@tilelang.jit
def running_sum(X, block_N: int = 16):
    """Sums over rows so far, for each column; one block per strip of columns."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), threads=32) as bx:
        total = T.alloc_fragment((block_N,), T.float32)
        T.clear(total)
        for r in T.serial(M):
            for j in T.Parallel(block_N):
                total[j] = total[j] + X[r, bx * block_N + j]
                Y[r, bx * block_N + j] = total[j]
    return Y


@tilelang.jit(out_idx=[-1])
def max_pool(N=2, H=16, W=16, C=32, size=2):
    @T.prim_func
    def main(X: T.Tensor((N, H, W, C), T.float16), Y: T.Tensor((N, H // size, W // size, C), T.float16)):
        with T.Kernel(H // size, N, threads=128) as (bh, bn):
            best = T.alloc_fragment((W // size, C), T.float16)
            T.fill(best, -60000.0)
            for r, s in T.grid(size, size):
                for w, c in T.Parallel(W // size, C):
                    best[w, c] = T.max(best[w, c], X[bn, bh * size + r, w * size + s, c])
            T.copy(best, Y[bn, bh, 0:8, 0:C])

    return main


@tilelang.jit(out_idx=[2])
def outer_sum(M=96, N=64, block=32):
    @T.prim_func
    def main(a: T.Tensor((M,), T.float32), b: T.Tensor((N,), T.float32), C: T.Tensor((M, N), T.float32)):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=64) as (bx, by):
            a_shared = T.alloc_shared((block,), T.float32)
            b_local = T.alloc_fragment((block,), T.float32)
            c = T.alloc_fragment((block, block), T.float32)
            T.copy(a[by * block], a_shared)
            T.copy(b[bx * block], b_local)
            for i, j in T.Parallel(block, block):
                c[i, j] = a_shared[i] + b_local[j]
            T.copy(c, C[by * block, bx * block])

    return main
