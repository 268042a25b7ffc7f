"""RMS normalisation: each row divided by the root of its mean square, and scaled by a weight per column."""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def rms_norm(M: int, N: int, block_M: int = 4, block_N: int = 512, eps: float = 1e-6, dtype=T.float16):
    @T.prim_func
    def rms_norm_kernel(
        X: T.Tensor((M, N), dtype),
        W: T.Tensor((N,), dtype),
        Y: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_shared((block_M, block_N), dtype)
            square = T.alloc_fragment((block_M, block_N), T.float32)
            total = T.alloc_fragment((block_M,), T.float32)

            T.clear(square)
            for k in T.serial(T.ceildiv(N, block_N)):
                T.copy(X[bx * block_M, k * block_N], x)  # zeros past the last column add nothing
                for i, j in T.Parallel(block_M, block_N):
                    square[i, j] += T.cast(x[i, j], T.float32) * T.cast(x[i, j], T.float32)
            T.reduce_sum(square, total, dim=1)
            for i in T.Parallel(block_M):
                total[i] = T.rsqrt(total[i] / N + eps)

            for k in T.serial(T.ceildiv(N, block_N)):
                T.copy(X[bx * block_M, k * block_N], x)
                for i, j in T.Parallel(block_M, block_N):
                    square[i, j] = x[i, j] * total[i] * W[k * block_N + j]
                T.copy(square, Y[bx * block_M, k * block_N])

    return rms_norm_kernel


def ref_program(X, W, eps: float = 1e-6):
    x = X.float()
    return (x * torch.rsqrt(x.square().mean(dim=1, keepdim=True) + eps) * W.float()).to(X.dtype)


def main(M: int = 1000, N: int = 3000) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(M, N, dtype=torch.float16, device=device)
    w = torch.randn(N, dtype=torch.float16, device=device)

    kernel = rms_norm(M, N)
    torch.testing.assert_close(kernel(x, w), ref_program(x, w), rtol=1e-2, atol=1e-2)

    latency = kernel.get_profiler().do_bench()
    print(f"rms_norm {M}x{N} on {device}: correct, {3 * 2 * M * N / latency / 1e6:.1f} GB/s")


if __name__ == "__main__":
    main()
