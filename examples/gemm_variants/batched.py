"""Batched GEMM: many independent products of one shape in a single launch.

Teaches: a grid dimension over the batch, and slices of a tensor of rank 3 as tiles of rank 2.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def gemm_batched(
    A,
    B,
    block_M: int = 128,
    block_N: int = 128,
    block_K: int = 64,
    num_stages: int = 3,
    threads: int = 128,
    dtype=T.bfloat16,
):
    batch, M, N, K = T.const("batch, M, N, K")
    A: T.Tensor((batch, M, K), dtype)
    B: T.Tensor((batch, K, N), dtype)
    C = T.empty((batch, M, N), dtype)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), batch, threads=threads) as (bx, by, b):
        A_shared = T.alloc_shared((block_M, block_K), dtype)
        B_shared = T.alloc_shared((block_K, block_N), dtype)
        acc = T.alloc_fragment((block_M, block_N), T.float32)

        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[b, by * block_M, k * block_K], A_shared)
            T.copy(B[b, k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, acc)
        T.copy(acc, C[b, by * block_M, bx * block_N])

    return C


def ref_program(A, B):
    return torch.bmm(A.float(), B.float()).to(A.dtype)


def inputs(batch: int, M: int, N: int, K: int, device: str = "cpu"):
    return (
        torch.randn(batch, M, K, dtype=torch.bfloat16, device=device),
        torch.randn(batch, K, N, dtype=torch.bfloat16, device=device),
    )


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch, M, N, K = (32, 1024, 1024, 1024) if device == "cuda" else (3, 150, 136, 100)
    given = inputs(batch, M, N, K, device)

    torch.testing.assert_close(gemm_batched(*given), ref_program(*given), rtol=1.6e-2, atol=1e-1)

    latency = gemm_batched.compile(*given).get_profiler().do_bench()
    speed = 2 * batch * M * N * K / latency / 1e9
    print(f"gemm_batched {batch}x{M}x{N}x{K} on {device}: correct, {speed:.3f} TFLOP/s")


if __name__ == "__main__":
    main()
