"""Split-K GEMM: for few output tiles and a long K, several blocks share one tile and add up their parts.

Teaches: a third grid dimension over K, and T.atomic_add of a whole tile into global memory.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def gemm_split_k(
    A,
    B,
    C,
    splits: int = 4,
    block_M: int = 64,
    block_N: int = 64,
    block_K: int = 32,
    dtype=T.float16,
):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), dtype)
    B: T.Tensor((K, N), dtype)
    C: T.Tensor((M, N), T.float32)  # zero at first: the blocks add to it

    part = T.ceildiv(T.ceildiv(K, splits), block_K) * block_K  # of K, for each split

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), splits, threads=128) as (bx, by, bz):
        A_shared = T.alloc_shared((block_M, block_K), dtype)
        B_shared = T.alloc_shared((block_K, block_N), dtype)
        acc = T.alloc_fragment((block_M, block_N), T.float32)

        T.clear(acc)
        for k in T.Pipelined(part // block_K, num_stages=2):
            T.copy(A[by * block_M, bz * part + k * block_K], A_shared)
            T.copy(B[bz * part + k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, acc)
        T.atomic_add(C[by * block_M, bx * block_N], acc)


def ref_program(A, B, C):
    C += A.float() @ B.float()


def main(M: int = 64, N: int = 96, K: int = 2000) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a = torch.randn(M, K, dtype=torch.float16, device=device)
    b = torch.randn(K, N, dtype=torch.float16, device=device)
    c = torch.zeros(M, N, device=device)

    gemm_split_k(a, b, c)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-3, atol=1e-2)

    latency = gemm_split_k.compile(a, b, c).get_profiler().do_bench()
    print(f"gemm_split_k {M}x{N}x{K} on {device}: correct, {2 * M * N * K / latency / 1e6:.1f} GFLOP/s")


if __name__ == "__main__":
    main()
