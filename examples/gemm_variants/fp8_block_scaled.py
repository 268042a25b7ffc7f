"""FP8 GEMM with fine-grained scales: one for 128 numbers of a row of A, one for 128 x 128 numbers of B.

Teaches: two accumulators. The tensor cores sum 128 products, then the scales of this piece of K are applied
while it is added to the total in float32, so that 8-bit floats do not lose the small rows beside large ones.
"""

import torch

import tilelang
import tilelang.language as T

GROUP = 128  # numbers of K with one scale, and of N in B
LARGEST = 448.0  # of float8_e4m3fn


@tilelang.jit
def gemm_fp8_block_scaled(
    A, B, A_scales, B_scales, block_M: int = 64, num_stages: int = 3, threads: int = 128, out_dtype=T.bfloat16
):
    M, N, K, pieces, blocks_N = T.const("M, N, K, pieces, blocks_N")
    A: T.Tensor((M, K), T.float8_e4m3fn)
    B: T.Tensor((N, K), T.float8_e4m3fn)
    A_scales: T.Tensor((M, pieces), T.float32)
    B_scales: T.Tensor((blocks_N, pieces), T.float32)
    C = T.empty((M, N), out_dtype)

    with T.Kernel(T.ceildiv(N, GROUP), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, GROUP), T.float8_e4m3fn)
        B_shared = T.alloc_shared((GROUP, GROUP), T.float8_e4m3fn)
        scale = T.alloc_fragment((block_M,), T.float32)
        part = T.alloc_fragment((block_M, GROUP), T.float32)
        total = T.alloc_fragment((block_M, GROUP), T.float32)
        T.use_swizzle(panel_size=8)

        T.clear(total)
        for k in T.Pipelined(T.ceildiv(K, GROUP), num_stages=num_stages):
            T.copy(A[by * block_M, k * GROUP], A_shared)
            T.copy(B[bx * GROUP, k * GROUP], B_shared)
            for i in T.Parallel(block_M):
                scale[i] = A_scales[by * block_M + i, k] * B_scales[bx, k]
            T.gemm(A_shared, B_shared, part, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(block_M, GROUP):
                total[i, j] += part[i, j] * scale[i]
        T.copy(total, C[by * block_M, bx * GROUP])

    return C


def ref_program(A, B, A_scales, B_scales):
    M, N, K = A.shape[0], B.shape[0], A.shape[1]
    a = A.float() * A_scales.repeat_interleave(GROUP, dim=1)[:, :K]
    wide = B_scales.repeat_interleave(GROUP, dim=0).repeat_interleave(GROUP, dim=1)
    return (a @ (B.float() * wide[:N, :K]).T).to(torch.bfloat16).reshape(M, N)


def inputs(M: int, N: int, K: int, device: str = "cpu"):
    pieces, blocks_N = -(-K // GROUP), -(-N // GROUP)
    return (
        (torch.randn(M, K, device=device) * 64).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn),
        (torch.randn(N, K, device=device) * 64).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn),
        torch.rand(M, pieces, device=device) / 64,
        torch.rand(blocks_N, pieces, device=device) / 64,
    )


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, N, K = (4096, 4096, 4096) if device == "cuda" else (100, 256, 384)
    given = inputs(M, N, K, device)

    torch.testing.assert_close(gemm_fp8_block_scaled(*given), ref_program(*given), rtol=2e-2, atol=1e-1)

    latency = gemm_fp8_block_scaled.compile(*given).get_profiler().do_bench()
    speed = 2 * M * N * K / latency / 1e9
    print(f"gemm_fp8_block_scaled {M}x{N}x{K} on {device}: correct, {speed:.3f} TFLOP/s")


if __name__ == "__main__":
    main()
