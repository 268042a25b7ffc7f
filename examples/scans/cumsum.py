"""Running sums of the rows of a matrix with any number of columns, tile by tile.

Teaches: T.cumsum on a shared tile, and a carry that goes from one tile of a row to the next.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def cumsum(X, block_M: int = 4, block_N: int = 256, dtype=T.float32):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    Y = T.empty((M, N), dtype)

    with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
        tile = T.alloc_shared((block_M, block_N), T.float32)
        carry = T.alloc_shared((block_M,), T.float32)  # the sum of the row's tiles before this one

        T.clear(carry)
        for k in T.serial(T.ceildiv(N, block_N)):
            T.copy(X[bx * block_M, k * block_N], tile)  # past the end: zeros
            T.cumsum(tile, dim=1)
            for i, j in T.Parallel(block_M, block_N):
                tile[i, j] = tile[i, j] + carry[i]
            for i in T.Parallel(block_M):
                carry[i] = tile[i, block_N - 1]
            T.copy(tile, Y[bx * block_M, k * block_N])

    return Y


def ref_program(X):
    return torch.cumsum(X.float(), dim=1).to(X.dtype)


def main(M: int = 1000, N: int = 3000) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(M, N, device=device)

    torch.testing.assert_close(cumsum(x), ref_program(x), rtol=1e-4, atol=1e-3)

    latency = cumsum.compile(M=M, N=N).get_profiler().do_bench()
    print(f"cumsum {M}x{N} on {device}: correct, {2 * 4 * M * N / latency / 1e6:.1f} GB/s")


if __name__ == "__main__":
    main()
