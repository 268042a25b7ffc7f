"""A matrix transposed through shared memory: rows are read along rows, and written along rows.

Teaches: why transposing needs a tile. Neighbouring threads read and write neighbouring addresses on both
sides; the change of direction happens in shared memory, from one tile to another.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def transpose(X, block: int = 64, threads: int = 256, dtype=T.float16):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    Y = T.empty((N, M), dtype)

    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=threads) as (bx, by):
        tile = T.alloc_shared((block, block), dtype)
        turned = T.alloc_shared((block, block), dtype)

        T.copy(X[by * block, bx * block], tile)
        T.transpose(tile, turned)
        T.copy(turned, Y[bx * block, by * block])

    return Y


def ref_program(X):
    return X.T.contiguous()


def inputs(M: int, N: int, device: str = "cpu"):
    return (torch.randn(M, N, dtype=torch.float16, device=device),)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, N = (8192, 8192) if device == "cuda" else (100, 150)
    given = inputs(M, N, device)

    assert torch.equal(transpose(*given), ref_program(*given))

    latency = transpose.compile(*given).get_profiler().do_bench()
    print(f"transpose {M}x{N} on {device}: correct, {2 * 2 * M * N / latency / 1e6:.1f} GB/s")


if __name__ == "__main__":
    main()
