"""GEMM with 4-bit weights: two to a byte, with one scale per group of the reduction, unpacked in registers.

Teaches: packed storage in a uint8 tensor, shifts and masks in T.Parallel, and a fragment that becomes the
operand of T.gemm without going through memory again.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def gemm_int4(
    A,
    B,
    Scales,
    group: int = 64,
    block_M: int = 64,
    block_N: int = 64,
    block_K: int = 64,
    num_stages: int = 2,
    dtype=T.float16,
):
    M, N, K, half_K, groups = T.const("M, N, K, half_K, groups")
    A: T.Tensor((M, K), dtype)
    B: T.Tensor((N, half_K), T.uint8)  # weight 2i in the low half of byte i, 2i + 1 in the high half; +8
    Scales: T.Tensor((N, groups), dtype)
    C = T.empty((M, N), dtype)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), dtype)
        packed = T.alloc_shared((block_N, block_K // 2), T.uint8)
        weights = T.alloc_shared((block_N, block_K), dtype)
        acc = T.alloc_fragment((block_M, block_N), T.float32)

        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[bx * block_N, k * block_K // 2], packed)
            for i, j in T.Parallel(block_N, block_K):
                nibble = (packed[i, j // 2] >> T.cast(j % 2 * 4, T.uint8)) & T.uint8(15)
                scale = Scales[bx * block_N + i, (k * block_K + j) // group]
                weights[i, j] = (T.cast(nibble, dtype) - 8) * scale
            T.gemm(A_shared, weights, acc, transpose_B=True)
        T.copy(acc, C[by * block_M, bx * block_N])

    return C


def unpack(B, Scales, group=64):
    """The weights that the bytes stand for."""
    nibbles = torch.stack([B & 15, B >> 4], dim=-1).reshape(B.shape[0], -1).float() - 8
    return nibbles * Scales.float().repeat_interleave(group, dim=1)[:, : nibbles.shape[1]]


def ref_program(A, B, Scales, group=64):
    return (A.float() @ unpack(B, Scales, group).T).to(A.dtype)


def main(M: int = 100, N: int = 136, K: int = 256, group: int = 64) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a = torch.randn(M, K, dtype=torch.float16, device=device)
    b = torch.randint(0, 256, (N, K // 2), dtype=torch.uint8, device=device)
    scales = torch.rand(N, K // group, device=device).half() / 8

    found = gemm_int4(a, b, scales)
    torch.testing.assert_close(found, ref_program(a, b, scales), rtol=2e-2, atol=5e-2)

    latency = gemm_int4.compile(a, b, scales).get_profiler().do_bench()
    print(f"gemm_int4 {M}x{N}x{K} on {device}: correct, {2 * M * N * K / latency / 1e6:.1f} GFLOP/s")


if __name__ == "__main__":
    main()
