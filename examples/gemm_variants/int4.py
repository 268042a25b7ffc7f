"""GEMM of signed 4-bit matrices, two numbers to a byte, on int8 tensor cores with exact int32 sums.

Teaches: sign extension by shifts, and unpacking on the way from one shared tile to another, which keeps the
traffic from memory at half a byte per number. (From Hopper on, tensor cores have no 4-bit integers.)
"""

import torch

import tilelang
import tilelang.language as T


@T.macro
def unpack(packed, wide, rows, columns):
    """Two signed numbers of each byte, the even one in its low half."""
    for i, j in T.Parallel(rows, columns):
        byte = packed[i, j // 2]
        # To the top of the byte, then back with its sign.
        wide[i, j] = T.if_then_else(j % 2 == 0, (byte << T.int8(4)) >> T.int8(4), byte >> T.int8(4))


@tilelang.jit
def gemm_int4_int4(
    A, B, block_M: int = 128, block_N: int = 128, block_K: int = 128, num_stages: int = 2, threads: int = 256
):
    M, N, half_K = T.const("M, N, half_K")
    A: T.Tensor((M, half_K), T.int8)
    B: T.Tensor((N, half_K), T.int8)
    C = T.empty((M, N), T.int32)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_packed = T.alloc_shared((block_M, block_K // 2), T.int8)
        B_packed = T.alloc_shared((block_N, block_K // 2), T.int8)
        A_shared = T.alloc_shared((block_M, block_K), T.int8)
        B_shared = T.alloc_shared((block_N, block_K), T.int8)
        acc = T.alloc_fragment((block_M, block_N), T.int32)
        T.use_swizzle(panel_size=8)

        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(half_K, block_K // 2), num_stages=num_stages):
            T.copy(A[by * block_M, k * (block_K // 2)], A_packed)
            T.copy(B[bx * block_N, k * (block_K // 2)], B_packed)
            unpack(A_packed, A_shared, block_M, block_K)
            unpack(B_packed, B_shared, block_N, block_K)
            T.gemm(A_shared, B_shared, acc, transpose_B=True)
        T.copy(acc, C[by * block_M, bx * block_N])

    return C


def unpacked(X):
    """The numbers that the bytes stand for, as float64."""
    low = (X << 4) >> 4
    return torch.stack([low, X >> 4], dim=-1).reshape(X.shape[0], -1).double()


def ref_program(A, B):
    return (unpacked(A) @ unpacked(B).T).int()


def inputs(M: int, N: int, K: int, device: str = "cpu"):
    return (
        torch.randint(-128, 128, (M, K // 2), dtype=torch.int8, device=device),
        torch.randint(-128, 128, (N, K // 2), dtype=torch.int8, device=device),
    )


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, N, K = (4096, 4096, 4096) if device == "cuda" else (100, 136, 288)
    given = inputs(M, N, K, device)

    assert torch.equal(gemm_int4_int4(*given), ref_program(*given))

    latency = gemm_int4_int4.compile(*given).get_profiler().do_bench()
    print(f"gemm_int4_int4 {M}x{N}x{K} on {device}: correct, {2 * M * N * K / latency / 1e9:.3f} TOP/s")


if __name__ == "__main__":
    main()
