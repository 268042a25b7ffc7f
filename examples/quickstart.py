"""GEMM + ReLU: the shape of most tile programs in thirty lines.

One block computes one tile of C. It walks over K, bringing a tile of A and a tile of B into shared memory
while the previous pair is multiplied; the ReLU happens on the accumulator before it is written.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def matmul_relu(A, B, block_M: int = 128, block_N: int = 128, block_K: int = 32):
    # Sizes are read from the tensors of the call; each new combination is compiled once.
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)

        T.clear(C_local)
        # Three stages: two pairs of tiles are on their way while one is multiplied.
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)

        for i, j in T.Parallel(block_M, block_N):
            C_local[i, j] = T.max(C_local[i, j], 0)

        # Tiles that stick out of C are cut off by the copy.
        T.copy(C_local, C[by * block_M, bx * block_N])

    return C


def ref_program(A, B):
    return torch.relu(A.float() @ B.float()).to(A.dtype)


def main(M: int = 1000, N: int = 1024, K: int = 520) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a = torch.randn(M, K, dtype=torch.float16, device=device)
    b = torch.randn(K, N, dtype=torch.float16, device=device)

    c = matmul_relu(a, b)
    torch.testing.assert_close(c, ref_program(a, b), rtol=1e-2, atol=1e-2)

    kernel = matmul_relu.compile(M=M, N=N, K=K)
    latency = kernel.get_profiler().do_bench()
    print(f"matmul_relu {M}x{N}x{K} on {device}: correct, {2 * M * N * K / latency / 1e9:.3f} TFLOP/s")


if __name__ == "__main__":
    main()
