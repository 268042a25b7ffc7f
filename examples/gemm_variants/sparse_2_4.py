"""GEMM with a 2:4 sparse A: of every four neighbours along K two are stored, and four bits say which.

Teaches: T.gemm_sp, and the pipeline of three tiles that it needs: half of A, the places of its numbers, and
all of B. `tilelang.utils.sparse` makes the first two from a dense matrix.
"""

import torch

import tilelang
import tilelang.language as T
from tilelang.utils.sparse import compress, random_sparse


@tilelang.jit
def gemm_sparse(
    A,
    E,
    B,
    block_M: int = 128,
    block_N: int = 128,
    block_K: int = 64,
    num_stages: int = 3,
    threads: int = 128,
    dtype=T.float16,
):
    M, N, K, half_K, codes_K = T.const("M, N, K, half_K, codes_K")
    A: T.Tensor((M, half_K), dtype)
    E: T.Tensor((M, codes_K), T.int16)  # 4 bits for each group of four: 16 numbers of K in one
    B: T.Tensor((K, N), dtype)
    C = T.empty((M, N), dtype)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K // 2), dtype)
        E_shared = T.alloc_shared((block_M, block_K // 16), T.int16)
        B_shared = T.alloc_shared((block_K, block_N), dtype)
        acc = T.alloc_fragment((block_M, block_N), T.float32)
        T.use_swizzle(panel_size=8)

        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * (block_K // 2)], A_shared)
            T.copy(E[by * block_M, k * (block_K // 16)], E_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm_sp(A_shared, E_shared, B_shared, acc)
        T.copy(acc, C[by * block_M, bx * block_N])

    return C


def dense(A, E):
    """A with its zeros: group g of a row has its numbers 2g and 2g + 1 at the two places of its code."""
    M, half_K = A.shape
    bits = torch.stack([E.int() >> (4 * g) for g in range(4)], dim=-1).reshape(M, -1)
    first = torch.arange(half_K // 2, device=A.device) * 4
    places = torch.stack([first + (bits & 3), first + (bits >> 2 & 3)], dim=-1).reshape(M, half_K)
    return torch.zeros(M, 2 * half_K, dtype=A.dtype, device=A.device).scatter(1, places.long(), A)


def ref_program(A, E, B):
    return (dense(A, E).float() @ B.float()).to(A.dtype)


def inputs(M: int, N: int, K: int, device: str = "cpu"):
    half, codes = compress(random_sparse(M, K, dtype=torch.float16))
    return half.to(device), codes.to(device), torch.randn(K, N, dtype=torch.float16, device=device)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, N, K = (4096, 4096, 4096) if device == "cuda" else (100, 136, 192)
    given = inputs(M, N, K, device)

    torch.testing.assert_close(gemm_sparse(*given), ref_program(*given), rtol=2e-3, atol=5e-2)

    latency = gemm_sparse.compile(*given).get_profiler().do_bench(input_tensors=list(given))
    print(f"gemm_sparse {M}x{N}x{K} on {device}: correct, {2 * M * N * K / latency / 1e9:.3f} TFLOP/s")


if __name__ == "__main__":
    main()
