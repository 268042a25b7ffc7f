"""Matrix multiplication for any number of rows: M is a run-time size (tokens), N and K are compiled in."""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def gemm_any_m(N: int, K: int, block_M: int = 64, block_N: int = 128, block_K: int = 32, dtype=T.float16):
    M = T.dynamic("M")

    @T.prim_func
    def gemm_any_m_kernel(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), T.float32)

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm_any_m_kernel


def ref_program(A, B):
    return (A.float() @ B.float()).to(A.dtype)


def main(N: int = 512, K: int = 512) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kernel = gemm_any_m(N, K)
    b = torch.randn(K, N, dtype=torch.float16, device=device)
    rows = (1, 63, 64, 200, 1000)
    for m in rows:
        a = torch.randn(m, K, dtype=torch.float16, device=device)
        torch.testing.assert_close(kernel(a, b), ref_program(a, b), rtol=1e-2, atol=1e-2)
    print(f"gemm_any_m {N}x{K} on {device}: one kernel, correct for {', '.join(map(str, rows))} rows")


if __name__ == "__main__":
    main()
