"""GEMM with 4-bit float weights (e2m1, two to a byte) and one half-precision scale per 32 of them.

Teaches: a conversion by bits alone. The three low bits of e2m1 moved to the right place are a float16 that is
2^14 too small, subnormals included, so that one multiplication gives the number and its scale.
"""

import torch

import tilelang
import tilelang.language as T

GROUP = 32  # weights with one scale
VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # of the codes 0 to 7; 8 to 15 are their negatives


@tilelang.jit
def gemm_fp4(
    A,
    B,
    Scales,
    block_M: int = 128,
    block_N: int = 128,
    block_K: int = 64,
    num_stages: int = 3,
    threads: int = 256,
):
    M, N, K, half_K, groups = T.const("M, N, K, half_K, groups")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, half_K), T.uint8)  # weight 2i in the low half of byte i
    Scales: T.Tensor((N, groups), T.float16)
    C = T.empty((M, N), T.float16)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        packed = T.alloc_shared((block_N, block_K // 2), T.uint8)
        scales = T.alloc_shared((block_N, block_K // GROUP), T.float16)
        weights = T.alloc_shared((block_N, block_K), T.float16)
        acc = T.alloc_fragment((block_M, block_N), T.float32)
        T.use_swizzle(panel_size=8)

        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[bx * block_N, k * (block_K // 2)], packed)
            T.copy(Scales[bx * block_N, k * (block_K // GROUP)], scales)
            for i, j in T.Parallel(block_N, block_K):
                code = T.cast(packed[i, j // 2] >> T.cast(j % 2 * 4, T.uint8), T.uint16)
                sign, rest = (code & T.uint16(8)) << T.uint16(12), (code & T.uint16(7)) << T.uint16(9)
                small = T.reinterpret(sign | rest, T.float16)
                weights[i, j] = small * T.float16(16384) * scales[i, j // GROUP]
            T.gemm(A_shared, weights, acc, transpose_B=True)
        T.copy(acc, C[by * block_M, bx * block_N])

    return C


def unpack(B, Scales):
    """The weights that the bytes stand for, rounded as the kernel rounds them."""
    table = torch.tensor([*VALUES, *(-v for v in VALUES)], device=B.device)
    codes = torch.stack([B & 15, B >> 4], dim=-1).reshape(B.shape[0], -1)
    return (table[codes.long()] * Scales.float().repeat_interleave(GROUP, dim=1)).half()


def ref_program(A, B, Scales):
    return (A.float() @ unpack(B, Scales).float().T).half()


def inputs(M: int, N: int, K: int, device: str = "cpu"):
    return (
        torch.randn(M, K, dtype=torch.float16, device=device),
        torch.randint(0, 256, (N, K // 2), dtype=torch.uint8, device=device),
        torch.rand(N, K // GROUP, device=device).half() / 8,
    )


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, N, K = (4096, 4096, 4096) if device == "cuda" else (100, 136, 288)
    given = inputs(M, N, K, device)

    torch.testing.assert_close(gemm_fp4(*given), ref_program(*given), rtol=2e-3, atol=5e-2)

    latency = gemm_fp4.compile(*given).get_profiler().do_bench()
    print(f"gemm_fp4 {M}x{N}x{K} on {device}: correct, {2 * M * N * K / latency / 1e9:.3f} TFLOP/s")


if __name__ == "__main__":
    main()
