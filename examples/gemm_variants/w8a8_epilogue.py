"""W8A8 linear layer: an int8 GEMM whose epilogue scales, adds a bias, applies GELU and rounds to float16.

Teaches: exact int32 accumulation on tensor cores, and an epilogue that keeps the result in registers until it
is what the next layer reads, so that the int32 matrix is never in memory.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def linear_w8a8(
    X,
    W,
    X_scales,
    W_scales,
    Bias,
    block_M: int = 128,
    block_N: int = 128,
    block_K: int = 128,
    num_stages: int = 3,
    threads: int = 256,
):
    M, N, K = T.const("M, N, K")
    X: T.Tensor((M, K), T.int8)
    W: T.Tensor((N, K), T.int8)
    X_scales: T.Tensor((M,), T.float32)  # one per token
    W_scales: T.Tensor((N,), T.float32)  # one per output channel
    Bias: T.Tensor((N,), T.float16)
    Y = T.empty((M, N), T.float16)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        X_shared = T.alloc_shared((block_M, block_K), T.int8)
        W_shared = T.alloc_shared((block_N, block_K), T.int8)
        acc = T.alloc_fragment((block_M, block_N), T.int32)
        y = T.alloc_fragment((block_M, block_N), T.float16)
        row_scale = T.alloc_fragment((block_M,), T.float32)
        column_scale = T.alloc_fragment((block_N,), T.float32)
        bias = T.alloc_fragment((block_N,), T.float16)
        T.use_swizzle(panel_size=8)

        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(X[by * block_M, k * block_K], X_shared)
            T.copy(W[bx * block_N, k * block_K], W_shared)
            T.gemm(X_shared, W_shared, acc, transpose_B=True)

        T.copy(X_scales[by * block_M], row_scale)
        T.copy(W_scales[bx * block_N], column_scale)
        T.copy(Bias[bx * block_N], bias)
        for i, j in T.Parallel(block_M, block_N):
            value = T.cast(acc[i, j], T.float32) * row_scale[i] * column_scale[j] + bias[j]
            y[i, j] = 0.5 * value * (1 + T.erf(value * 0.7071067811865476))
        T.copy(y, Y[by * block_M, bx * block_N])

    return Y


def ref_program(X, W, X_scales, W_scales, Bias):
    # Through float64, which holds the sums of products of 8-bit numbers exactly.
    value = X.double() @ W.double().T * X_scales[:, None] * W_scales + Bias
    return torch.nn.functional.gelu(value).half()


def inputs(M: int, N: int, K: int, device: str = "cpu"):
    return (
        torch.randint(-128, 128, (M, K), dtype=torch.int8, device=device),
        torch.randint(-128, 128, (N, K), dtype=torch.int8, device=device),
        torch.rand(M, device=device) / 128,
        torch.rand(N, device=device) / 128,
        torch.randn(N, dtype=torch.float16, device=device),
    )


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, N, K = (4096, 4096, 4096) if device == "cuda" else (100, 136, 288)
    given = inputs(M, N, K, device)

    torch.testing.assert_close(linear_w8a8(*given), ref_program(*given), rtol=2e-3, atol=2e-3)

    latency = linear_w8a8.compile(*given).get_profiler().do_bench()
    print(f"linear_w8a8 {M}x{N}x{K} on {device}: correct, {2 * M * N * K / latency / 1e9:.3f} TOP/s")


if __name__ == "__main__":
    main()
