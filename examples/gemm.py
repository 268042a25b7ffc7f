"""Matrix multiplication in several dtypes, with B stored as [N, K], as weights often are, or as [K, N].

The accumulator's dtype follows the inputs': float32 for floats (float32 inputs run as TF32 on tensor cores),
int32 for int8.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def gemm(
    M: int,
    N: int,
    K: int,
    dtype=T.float16,
    accum_dtype=T.float32,
    out_dtype=T.float16,
    transpose_B: bool = True,
    block_M: int = 128,
    block_N: int = 128,
    block_K: int = 32,
    num_stages: int = 2,
):
    B_shape = (N, K) if transpose_B else (K, N)
    B_tile = (block_N, block_K) if transpose_B else (block_K, block_N)

    @T.prim_func
    def gemm_kernel(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor(B_shape, dtype),
        C: T.Tensor((M, N), out_dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared(B_tile, dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                if transpose_B:  # decided while compiling
                    T.copy(B[bx * block_N, k * block_K], B_shared)
                else:
                    T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=transpose_B)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm_kernel


def ref_program(A, B):
    # Through float64, which holds every product of 8- and 16-bit numbers exactly. B is [N, K].
    return A.double() @ B.double().t()


def main(M: int = 512, N: int = 768, K: int = 1024) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for dtype, accum, out in (
        (torch.float16, T.float32, torch.float16),
        (torch.bfloat16, T.float32, torch.float32),
        (torch.float32, T.float32, torch.float32),
        (torch.int8, T.int32, torch.int32),
    ):
        kernel = gemm(M, N, K, dtype, accum, out)
        if dtype is torch.int8:
            a, b = (torch.randint(-128, 128, s, dtype=dtype, device=device) for s in ((M, K), (N, K)))
        else:
            a, b = (torch.randn(s, device=device).to(dtype) for s in ((M, K), (N, K)))
        # TF32 keeps 10 bits of the mantissa: about three decimal digits per product.
        rtol, atol = (1e-2, 1e-1) if dtype.is_floating_point else (0.0, 0.0)
        torch.testing.assert_close(kernel(a, b), ref_program(a, b).to(out), rtol=rtol, atol=atol)
        latency = kernel.get_profiler().do_bench()
        speed = 2 * M * N * K / latency / 1e9
        print(f"gemm {M}x{N}x{K} {str(dtype)[6:]} on {device}: correct, {speed:.3f} TOP/s")


if __name__ == "__main__":
    main()
