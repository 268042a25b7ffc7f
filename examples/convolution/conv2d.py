"""2-D convolution (NHWC) as a gemm: each tile of the image matrix is gathered while it is needed.

Teaches: an implicit im2col whose steps are a tap of the filter and a block of channels, guards for the
padding that are the same for neighbours, and a pipeline that therefore fetches the gathered tile ahead.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def conv2d(
    X,
    W,
    stride: int = 1,
    padding: int = 1,
    block_M: int = 128,
    block_N: int = 128,
    block_K: int = 64,
    num_stages: int = 3,
    threads: int = 128,
    dtype=T.float16,
):
    N, H, Wd, C = T.const("N, H, Wd, C")
    KH, KW, F = T.const("KH, KW, F")
    X: T.Tensor((N, H, Wd, C), dtype)
    W: T.Tensor((KH, KW, C, F), dtype)
    OH = (H + 2 * padding - KH) // stride + 1
    OW = (Wd + 2 * padding - KW) // stride + 1
    Y = T.empty((N, OH, OW, F), dtype)

    pixels, parts = N * OH * OW, T.ceildiv(C, block_K)

    with T.Kernel(T.ceildiv(F, block_N), T.ceildiv(pixels, block_M), threads=threads) as (bx, by):
        image = T.alloc_shared((block_M, block_K), dtype)
        weights = T.alloc_shared((block_K, block_N), dtype)
        acc = T.alloc_fragment((block_M, block_N), T.float32)
        flat_out = T.reshape(Y, (pixels, F))

        T.clear(acc)
        for t in T.Pipelined(KH * KW * parts, num_stages=num_stages):
            tap, part = t // parts, t % parts
            for i, j in T.Parallel(block_M, block_K):
                pixel, channel = by * block_M + i, part * block_K + j
                row = pixel // OW % OH * stride + tap // KW - padding
                column = pixel % OW * stride + tap % KW - padding
                in_image = (row >= 0) & (row < H) & (column >= 0) & (column < Wd)
                inside = in_image & (pixel < pixels) & (channel < C)
                image[i, j] = T.if_then_else(inside, X[pixel // (OH * OW), row, column, channel], 0)
            T.copy(W[tap // KW, tap % KW, part * block_K, bx * block_N], weights)
            T.gemm(image, weights, acc)
        T.copy(acc, flat_out[by * block_M, bx * block_N])

    return Y


def ref_program(X, W, stride=1, padding=1):
    x, w = X.float().permute(0, 3, 1, 2), W.float().permute(3, 2, 0, 1)
    return torch.nn.functional.conv2d(x, w, stride=stride, padding=padding).permute(0, 2, 3, 1).to(X.dtype)


def main(N: int = 2, H: int = 14, W: int = 15, C: int = 24, F: int = 40) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(N, H, W, C, dtype=torch.float16, device=device)
    w = torch.randn(3, 3, C, F, dtype=torch.float16, device=device)

    for stride in (1, 2):
        found = conv2d(x, w, stride=stride)
        torch.testing.assert_close(found, ref_program(x, w, stride), rtol=1e-2, atol=5e-2)

    latency = conv2d.compile(x, w).get_profiler().do_bench()
    print(f"conv2d {tuple(x.shape)} on {device}: correct, {latency:.3f} ms")


if __name__ == "__main__":
    main()
