"""Images from (N, C, H, W) to (N, H, W, C): a transposition of C with all pixels, for every image.

Teaches: T.reshape of global tensors, so that a permutation of four dimensions becomes one of two, and a tile
with padded rows, which is read by columns without bank conflicts.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def channels_last(X, block_C: int = 64, block_P: int = 64, threads: int = 256, dtype=T.float16):
    N, C, H, W = T.const("N, C, H, W")
    X: T.Tensor((N, C, H, W), dtype)
    Y = T.empty((N, H, W, C), dtype)

    pixels = H * W

    with T.Kernel(T.ceildiv(pixels, block_P), T.ceildiv(C, block_C), N, threads=threads) as (bx, by, n):
        flat_x = T.reshape(X, (N, C, pixels))
        flat_y = T.reshape(Y, (N, pixels, C))
        tile = T.alloc_shared((block_C, block_P + 2), dtype)  # 4 bytes more: the next row is one bank on

        for i, j in T.Parallel(block_C, block_P):
            tile[i, j] = flat_x[n, by * block_C + i, bx * block_P + j]
        for j, i in T.Parallel(block_P, block_C):
            flat_y[n, bx * block_P + j, by * block_C + i] = tile[i, j]

    return Y


def ref_program(X):
    return X.permute(0, 2, 3, 1).contiguous()


def inputs(N: int, C: int, H: int, W: int, device: str = "cpu"):
    return (torch.randn(N, C, H, W, dtype=torch.float16, device=device),)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shape = (32, 256, 64, 64) if device == "cuda" else (2, 70, 9, 11)
    given = inputs(*shape, device)

    assert torch.equal(channels_last(*given), ref_program(*given))

    latency = channels_last.compile(*given).get_profiler().do_bench()
    print(f"channels_last {shape} on {device}: correct, {4 * given[0].numel() / latency / 1e6:.1f} GB/s")


if __name__ == "__main__":
    main()
