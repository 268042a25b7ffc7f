"""GEMM of signed 4-bit matrices on the 4-bit tensor cores of Ampere and Ada: T.gemm of T.int4 operands.

Teaches: a dtype of half a byte from tensor to instruction (tiles hold two numbers to a byte, and so do the
tensors that the kernel is given), with exact int32 sums.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def gemm_int4_mma(
    A, B, block_M: int = 128, block_N: int = 128, block_K: int = 128, num_stages: int = 3, threads: int = 128
):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.int4)
    B: T.Tensor((N, K), T.int4)
    C = T.empty((M, N), T.int32)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        a = T.alloc_shared((block_M, block_K), T.int4)
        b = T.alloc_shared((block_N, block_K), T.int4)
        acc = T.alloc_fragment((block_M, block_N), T.int32)
        T.use_swizzle(panel_size=8)

        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], a)
            T.copy(B[bx * block_N, k * block_K], b)
            T.gemm(a, b, acc, transpose_B=True)
        T.copy(acc, C[by * block_M, bx * block_N])

    return C


def unpacked(X):
    """The numbers that the bytes stand for, as float64: the even one in the low half."""
    low = (X << 4) >> 4
    return torch.stack([low, X >> 4], dim=-1).reshape(X.shape[0], -1).double()


def ref_program(A, B):
    return (unpacked(A) @ unpacked(B).T).int()


def inputs(M: int, N: int, K: int, device: str = "cpu"):
    """Bytes of two numbers each: [M, K / 2] and [N, K / 2]."""
    return (
        torch.randint(-128, 128, (M, K // 2), dtype=torch.int8, device=device),
        torch.randint(-128, 128, (N, K // 2), dtype=torch.int8, device=device),
    )


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, N, K = (4096, 4096, 4096) if device == "cuda" else (100, 136, 288)
    given = inputs(M, N, K, device)

    assert torch.equal(gemm_int4_mma(*given), ref_program(*given))

    latency = gemm_int4_mma.compile(*given).get_profiler().do_bench()
    print(f"gemm_int4_mma {M}x{N}x{K} on {device}: correct, {2 * M * N * K / latency / 1e9:.3f} TOP/s")


if __name__ == "__main__":
    main()
