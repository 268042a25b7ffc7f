"""A matrix to 8-bit floats with one scale per 128 x 128 block, as weights of block-scaled GEMMs are stored.

Teaches: a reduction over both dimensions of a tile, rows first, then their results, and scalars that all
threads share.
"""

import torch

import tilelang
import tilelang.language as T

BLOCK = 128
LARGEST = 448.0  # of float8_e4m3fn


@tilelang.jit
def cast_fp8_per_block(X, threads: int = 256, dtype=T.bfloat16):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    Y = T.empty((M, N), T.float8_e4m3fn)
    Scales = T.empty((T.ceildiv(M, BLOCK), T.ceildiv(N, BLOCK)), T.float32)

    with T.Kernel(T.ceildiv(N, BLOCK), T.ceildiv(M, BLOCK), threads=threads) as (bx, by):
        x = T.alloc_fragment((BLOCK, BLOCK), T.float32)
        of_row = T.alloc_fragment((BLOCK,), T.float32)
        largest = T.alloc_fragment((1,), T.float32)

        T.copy(X[by * BLOCK, bx * BLOCK], x)  # zeros outside do not count
        T.reduce_absmax(x, of_row, dim=1)
        T.reduce_max(of_row, largest, dim=0)
        largest[0] = T.max(largest[0], 1e-4) / LARGEST
        for i, j in T.Parallel(BLOCK, BLOCK):
            x[i, j] /= largest[0]
        T.copy(x, Y[by * BLOCK, bx * BLOCK])
        Scales[by, bx] = largest[0]

    return Y, Scales


def ref_program(X):
    M, N = X.shape
    rows, columns = -(-M // BLOCK), -(-N // BLOCK)
    x = torch.nn.functional.pad(X.float(), (0, columns * BLOCK - N, 0, rows * BLOCK - M))
    blocks = x.reshape(rows, BLOCK, columns, BLOCK)
    scales = blocks.abs().amax(dim=(1, 3)).clamp(min=1e-4) / LARGEST
    scaled = (blocks / scales[:, None, :, None]).reshape(rows * BLOCK, columns * BLOCK)[:M, :N]
    return scaled.to(torch.float8_e4m3fn), scales


def inputs(M: int, N: int, device: str = "cpu"):
    return (torch.randn(M, N, device=device).to(torch.bfloat16),)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, N = (8192, 8192) if device == "cuda" else (150, 300)
    given = inputs(M, N, device)

    (found, scales), (expected, expected_scales) = cast_fp8_per_block(*given), ref_program(*given)
    torch.testing.assert_close(scales, expected_scales)
    # One step of the format, where the quotient lies between two numbers.
    torch.testing.assert_close(found.float(), expected.float(), rtol=0.13, atol=0.02)

    latency = cast_fp8_per_block.compile(*given).get_profiler().do_bench()
    print(f"cast_fp8_per_block {M}x{N} on {device}: correct, {3 * M * N / latency / 1e6:.1f} GB/s")


if __name__ == "__main__":
    main()
