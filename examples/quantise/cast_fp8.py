"""Cast to 8-bit floats with one scale per group of a row, as inputs of fp8 gemms are prepared.

Teaches: a view that gives a row its groups, T.reduce_absmax, and a saturating conversion.
"""

import torch

import tilelang
import tilelang.language as T

LARGEST = 448.0  # of float8_e4m3fn


@tilelang.jit
def cast_fp8(X, group: int = 128, rows: int = 8, dtype=T.float16):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    Y = T.empty((M, N), T.float8_e4m3fn)
    Scales = T.empty((M, T.ceildiv(N, group)), T.float32)

    with T.Kernel(T.ceildiv(M, rows), T.ceildiv(N, group), threads=128) as (bx, by):
        x = T.alloc_fragment((rows, group), T.float32)
        largest = T.alloc_fragment((rows,), T.float32)

        T.copy(X[bx * rows, by * group], x)
        T.reduce_absmax(x, largest, dim=1)
        for i in T.Parallel(rows):
            largest[i] = T.max(largest[i], 1e-4) / LARGEST
        for i, j in T.Parallel(rows, group):
            x[i, j] = T.clamp(x[i, j] / largest[i], -LARGEST, LARGEST)
        T.copy(x, Y[bx * rows, by * group])
        for i in T.Parallel(rows):
            if bx * rows + i < M:
                Scales[bx * rows + i, by] = largest[i]

    return Y, Scales


def ref_program(X, group=128):
    groups = X.float().reshape(X.shape[0], -1, group)
    scales = groups.abs().amax(dim=2).clamp(min=1e-4) / LARGEST
    scaled = (groups / scales[..., None]).clamp(-LARGEST, LARGEST)
    return scaled.reshape(X.shape).to(torch.float8_e4m3fn), scales


def main(M: int = 100, N: int = 384) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(M, N, dtype=torch.float16, device=device)

    found, scales = cast_fp8(x)
    expected, expected_scales = ref_program(x)
    torch.testing.assert_close(scales, expected_scales)
    torch.testing.assert_close(
        found.float(), expected.float(), rtol=0.13, atol=0.02
    )  # one step of the format

    latency = cast_fp8.compile(x).get_profiler().do_bench()
    print(f"cast_fp8 {M}x{N} on {device}: correct, {3 * M * N / latency / 1e6:.1f} GB/s")


if __name__ == "__main__":
    main()
