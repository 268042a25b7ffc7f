"""GEMM with either operand stored transposed, as forward and backward of a linear layer need it.

Teaches: transpose_A and transpose_B of T.gemm: the tile is loaded as it lies in memory, rows stay contiguous,
and the tensor core reads it transposed.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def gemm_transposed(
    A,
    B,
    transpose_A: bool = False,
    transpose_B: bool = False,
    block_M: int = 128,
    block_N: int = 128,
    block_K: int = 64,
    num_stages: int = 3,
    threads: int = 128,
    dtype=T.float16,
):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((K, M) if transpose_A else (M, K), dtype)
    B: T.Tensor((N, K) if transpose_B else (K, N), dtype)
    C = T.empty((M, N), dtype)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_K, block_M) if transpose_A else (block_M, block_K), dtype)
        B_shared = T.alloc_shared((block_N, block_K) if transpose_B else (block_K, block_N), dtype)
        acc = T.alloc_fragment((block_M, block_N), T.float32)
        T.use_swizzle(panel_size=8)

        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            if transpose_A:  # decided while compiling
                T.copy(A[k * block_K, by * block_M], A_shared)
            else:
                T.copy(A[by * block_M, k * block_K], A_shared)
            if transpose_B:
                T.copy(B[bx * block_N, k * block_K], B_shared)
            else:
                T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, acc, transpose_A=transpose_A, transpose_B=transpose_B)
        T.copy(acc, C[by * block_M, bx * block_N])

    return C


def ref_program(A, B, transpose_A=False, transpose_B=False):
    a = A.T if transpose_A else A
    b = B.T if transpose_B else B
    return (a.float() @ b.float()).to(A.dtype)


def inputs(M: int, N: int, K: int, device: str = "cpu", transpose_A: bool = False, transpose_B: bool = False):
    return (
        torch.randn((K, M) if transpose_A else (M, K), dtype=torch.float16, device=device),
        torch.randn((N, K) if transpose_B else (K, N), dtype=torch.float16, device=device),
    )


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, N, K = (4096, 4096, 4096) if device == "cuda" else (200, 136, 104)
    for form in ((False, False), (False, True), (True, False), (True, True)):
        given = inputs(M, N, K, device, *form)
        expected = ref_program(given[0], given[1], *form)
        torch.testing.assert_close(gemm_transposed(*given, *form), expected, rtol=2e-3, atol=5e-2)

        latency = gemm_transposed.compile(*given, *form).get_profiler().do_bench()
        name = "".join("T" if transposed else "N" for transposed in form)
        speed = 2 * M * N * K / latency / 1e9
        print(f"gemm_transposed {name} {M}x{N}x{K} on {device}: correct, {speed:.3f} TFLOP/s")


if __name__ == "__main__":
    main()
