"""Matrix times vector: a warp of threads for each row, which add up their parts.

Teaches: a reduction over a tile that is as wide as the row, without tensor cores; the work is all memory.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def gemv(A, x, rows: int = 4, block_K: int = 256, dtype=T.float16):
    M, K = T.const("M, K")
    A: T.Tensor((M, K), dtype)
    x: T.Tensor((K,), dtype)
    y = T.empty((M,), dtype)

    with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
        products = T.alloc_fragment((rows, block_K), T.float32)
        part = T.alloc_fragment((rows,), T.float32)
        total = T.alloc_fragment((rows,), T.float32)

        T.clear(total)
        for k in T.serial(T.ceildiv(K, block_K)):
            for i, j in T.Parallel(rows, block_K):
                a = T.cast(A[bx * rows + i, k * block_K + j], T.float32)
                products[i, j] = a * T.cast(x[k * block_K + j], T.float32)
            T.reduce_sum(products, part, dim=1)
            for i in T.Parallel(rows):
                total[i] += part[i]
        T.copy(total, y[bx * rows])

    return y


def ref_program(A, x):
    return (A.float() @ x.float()).to(A.dtype)


def main(M: int = 1000, K: int = 2000) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a = torch.randn(M, K, dtype=torch.float16, device=device)
    x = torch.randn(K, dtype=torch.float16, device=device)

    torch.testing.assert_close(gemv(a, x), ref_program(a, x), rtol=2e-3, atol=2e-2)

    latency = gemv.compile(a, x).get_profiler().do_bench()
    print(f"gemv {M}x{K} on {device}: correct, {2 * M * K / latency / 1e6:.1f} GB/s")


if __name__ == "__main__":
    main()
