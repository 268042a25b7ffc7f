"""Group normalisation of images (N, C, H, W): mean and variance over the channels of a group and all pixels.

Teaches: a tensor seen in another shape. A group's channels lie side by side, so that (N, groups, numbers) is
the same memory; sum and sum of squares are gathered in one pass, in registers, and folded once at the end.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def group_norm(
    X,
    Weight,
    Bias,
    groups: int = 32,
    eps: float = 1e-5,
    block: int = 2048,
    threads: int = 256,
    dtype=T.float16,
):
    N, C, H, W = T.const("N, C, H, W")
    X: T.Tensor((N, C, H, W), dtype)
    Weight: T.Tensor((C,), dtype)
    Bias: T.Tensor((C,), dtype)
    Y = T.empty((N, C, H, W), dtype)

    channels = C // groups  # of a group
    size = channels * H * W

    with T.Kernel(groups, N, threads=threads) as (group, n):
        flat_x = T.reshape(X, (N, groups, size))
        flat_y = T.reshape(Y, (N, groups, size))
        x = T.alloc_fragment((block,), T.float32)
        sums = T.alloc_fragment((block,), T.float32)
        squares = T.alloc_fragment((block,), T.float32)
        mean = T.alloc_fragment((1,), T.float32)
        scale = T.alloc_fragment((1,), T.float32)

        T.clear(sums)
        T.clear(squares)
        for t in T.serial(T.ceildiv(size, block)):
            T.copy(flat_x[n, group, t * block], x)  # past the end: zeros
            for j in T.Parallel(block):
                sums[j] += x[j]
                squares[j] += x[j] * x[j]
        T.reduce_sum(sums, mean, dim=0)
        T.reduce_sum(squares, scale, dim=0)
        for i in T.Parallel(1):
            mean[i] /= size
            scale[i] = T.rsqrt(T.max(scale[i] / size - mean[i] * mean[i], 0) + eps)
        for t in T.serial(T.ceildiv(size, block)):
            for j in T.Parallel(block):
                place = t * block + j  # past the end nothing is written
                channel = group * channels + place // (H * W)
                value = (flat_x[n, group, place] - mean[0]) * scale[0]
                flat_y[n, group, place] = value * Weight[channel] + Bias[channel]

    return Y


def ref_program(X, Weight, Bias, groups=32):
    return torch.nn.functional.group_norm(X.float(), groups, Weight.float(), Bias.float()).to(X.dtype)


def inputs(N: int, C: int, H: int, W: int, device: str = "cpu"):
    return (
        torch.randn(N, C, H, W, dtype=torch.float16, device=device),
        torch.randn(C, dtype=torch.float16, device=device),
        torch.randn(C, dtype=torch.float16, device=device),
    )


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shape = (16, 512, 64, 64) if device == "cuda" else (2, 64, 9, 10)
    given = inputs(*shape, device)

    torch.testing.assert_close(group_norm(*given), ref_program(*given), rtol=2e-3, atol=4e-3)

    latency = group_norm.compile(*given).get_profiler().do_bench()
    speed = 3 * 2 * given[0].numel() / latency / 1e6
    print(f"group_norm {shape} on {device}: correct, {speed:.1f} GB/s")


if __name__ == "__main__":
    main()
