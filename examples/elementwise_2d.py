"""A fused element-wise operation on matrices: C = A * sigmoid(A) + B, tile by tile through fragments."""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def silu_add(A, B, block_M: int = 32, block_N: int = 128, dtype=T.float16):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), dtype)
    B: T.Tensor((M, N), dtype)
    C = T.empty((M, N), dtype)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        a = T.alloc_fragment((block_M, block_N), dtype)
        b = T.alloc_fragment((block_M, block_N), dtype)

        T.copy(A[by * block_M, bx * block_N], a)
        T.copy(B[by * block_M, bx * block_N], b)
        for i, j in T.Parallel(block_M, block_N):
            # Half precision in memory, single precision in between.
            x = T.cast(a[i, j], T.float32)
            a[i, j] = x / (1 + T.exp(-x)) + b[i, j]
        T.copy(a, C[by * block_M, bx * block_N])

    return C


def ref_program(A, B):
    return (torch.nn.functional.silu(A.float()) + B.float()).to(A.dtype)


def main(M: int = 1000, N: int = 2000) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a = torch.randn(M, N, dtype=torch.float16, device=device)
    b = torch.randn(M, N, dtype=torch.float16, device=device)

    torch.testing.assert_close(silu_add(a, b), ref_program(a, b), rtol=1e-2, atol=1e-2)

    latency = silu_add.compile(M=M, N=N).get_profiler().do_bench()
    print(f"silu_add {M}x{N} on {device}: correct, {3 * 2 * M * N / latency / 1e6:.1f} GB/s")


if __name__ == "__main__":
    main()
