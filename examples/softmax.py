"""Row softmax of matrices with any number of columns: one pass finds maximum and sum together.

A block holds `block_M` rows. For each tile of columns the running maximum may grow; then the sum so far is
scaled down to the new maximum before the tile's terms are added. A second pass writes the result.
"""

import torch

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634  # exp(x) = exp2(x * LOG2_E), and exp2 is the cheapest exponential


@tilelang.jit
def softmax(X, block_M: int = 4, block_N: int = 512, dtype=T.float32):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    Y = T.empty((M, N), dtype)

    with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
        x = T.alloc_fragment((block_M, block_N), T.float32)
        tile_max = T.alloc_fragment((block_M,), T.float32)
        tile_sum = T.alloc_fragment((block_M,), T.float32)
        row_max = T.alloc_fragment((block_M,), T.float32)
        row_sum = T.alloc_fragment((block_M,), T.float32)

        T.fill(row_max, -T.infinity(T.float32))
        T.clear(row_sum)
        for k in T.serial(T.ceildiv(N, block_N)):
            for i, j in T.Parallel(block_M, block_N):
                # Columns past the end must not win the maximum, nor add to the sum.
                value = T.cast(X[bx * block_M + i, k * block_N + j], T.float32) * LOG2_E
                x[i, j] = T.if_then_else(k * block_N + j < N, value, -T.infinity(T.float32))
            T.reduce_max(x, tile_max, dim=1)
            for i in T.Parallel(block_M):
                tile_max[i] = T.max(tile_max[i], row_max[i])
            for i, j in T.Parallel(block_M, block_N):
                x[i, j] = T.exp2(x[i, j] - tile_max[i])
            T.reduce_sum(x, tile_sum, dim=1)
            for i in T.Parallel(block_M):
                row_sum[i] = row_sum[i] * T.exp2(row_max[i] - tile_max[i]) + tile_sum[i]
                row_max[i] = tile_max[i]

        for k in T.serial(T.ceildiv(N, block_N)):
            T.copy(X[bx * block_M, k * block_N], x)
            for i, j in T.Parallel(block_M, block_N):
                x[i, j] = T.exp2(x[i, j] * LOG2_E - row_max[i]) / row_sum[i]
            T.copy(x, Y[bx * block_M, k * block_N])

    return Y


def ref_program(X):
    return torch.softmax(X.float(), dim=1).to(X.dtype)


def main(M: int = 1000, N: int = 3000) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(M, N, device=device)

    torch.testing.assert_close(softmax(x), ref_program(x), rtol=1e-4, atol=1e-6)

    latency = softmax.compile(M=M, N=N).get_profiler().do_bench()
    print(f"softmax {M}x{N} on {device}: correct, {3 * 4 * M * N / latency / 1e6:.1f} GB/s")


if __name__ == "__main__":
    main()
