"""FP8 GEMM with one scale per row of A and per row of B (an output channel), as inference servers quantise.

Teaches: scales that do not depend on K stay out of the loop; they are read once, into fragments, and applied
to the accumulator in the epilogue.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def gemm_fp8(
    A,
    B,
    A_scales,
    B_scales,
    block_M: int = 128,
    block_N: int = 128,
    block_K: int = 128,
    num_stages: int = 3,
    threads: int = 256,
    out_dtype=T.bfloat16,
):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float8_e4m3fn)
    B: T.Tensor((N, K), T.float8_e4m3fn)
    A_scales: T.Tensor((M,), T.float32)
    B_scales: T.Tensor((N,), T.float32)
    C = T.empty((M, N), out_dtype)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.float8_e4m3fn)
        B_shared = T.alloc_shared((block_N, block_K), T.float8_e4m3fn)
        acc = T.alloc_fragment((block_M, block_N), T.float32)
        row_scale = T.alloc_fragment((block_M,), T.float32)
        column_scale = T.alloc_fragment((block_N,), T.float32)
        T.use_swizzle(panel_size=8)

        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[bx * block_N, k * block_K], B_shared)
            T.gemm(A_shared, B_shared, acc, transpose_B=True)
        T.copy(A_scales[by * block_M], row_scale)
        T.copy(B_scales[bx * block_N], column_scale)
        for i, j in T.Parallel(block_M, block_N):
            acc[i, j] *= row_scale[i] * column_scale[j]
        T.copy(acc, C[by * block_M, bx * block_N])

    return C


def ref_program(A, B, A_scales, B_scales):
    return ((A.float() @ B.float().T) * A_scales[:, None] * B_scales).to(torch.bfloat16)


def inputs(M: int, N: int, K: int, device: str = "cpu"):
    return (
        torch.randn(M, K, device=device).to(torch.float8_e4m3fn),
        torch.randn(N, K, device=device).to(torch.float8_e4m3fn),
        torch.rand(M, device=device) + 0.5,
        torch.rand(N, device=device) + 0.5,
    )


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, N, K = (4096, 4096, 4096) if device == "cuda" else (100, 136, 288)
    given = inputs(M, N, K, device)

    torch.testing.assert_close(gemm_fp8(*given), ref_program(*given), rtol=2e-2, atol=1e-1)

    latency = gemm_fp8.compile(*given).get_profiler().do_bench()
    print(f"gemm_fp8 {M}x{N}x{K} on {device}: correct, {2 * M * N * K / latency / 1e9:.3f} TFLOP/s")


if __name__ == "__main__":
    main()
