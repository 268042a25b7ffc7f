"""RMS normalisation, backward: the gradients of the input, row by row, and of the weights, over all rows.

Teaches: a sum over rows that are spread over blocks. Each block keeps one partial sum in registers for all
the rows it works on, and adds it to memory once, with T.atomic_add of a whole tile.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def rms_norm_backward(
    X, Weight, dY, dWeight, workers: int = 264, eps: float = 1e-6, threads: int = 256, dtype=T.float16
):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    Weight: T.Tensor((N,), dtype)
    dY: T.Tensor((M, N), dtype)
    dWeight: T.Tensor((N,), T.float32)  # zero at first: the blocks add to it
    dX = T.empty((M, N), dtype)

    with T.Kernel(workers, threads=threads) as bx:
        x = T.alloc_fragment((N,), T.float32)
        dy = T.alloc_fragment((N,), T.float32)
        product = T.alloc_fragment((N,), T.float32)
        weight = T.alloc_fragment((N,), T.float32)
        d_weight = T.alloc_fragment((N,), T.float32)
        square = T.alloc_fragment((1,), T.float32)
        along = T.alloc_fragment((1,), T.float32)

        T.copy(Weight, weight)
        T.clear(d_weight)
        for step in T.serial(T.ceildiv(M - bx, workers)):
            row = bx + step * workers
            T.copy(X[row, :], x)
            T.copy(dY[row, :], dy)
            for j in T.Parallel(N):
                product[j] = x[j] * x[j]
            T.reduce_sum(product, square, dim=0)
            for j in T.Parallel(N):
                product[j] = dy[j] * weight[j] * x[j]
            T.reduce_sum(product, along, dim=0)
            for j in T.Parallel(N):
                scale = T.rsqrt(square[0] / N + eps)
                d_weight[j] += dy[j] * x[j] * scale
                x[j] = scale * (dy[j] * weight[j] - x[j] * along[0] * scale * scale / N)
            T.copy(x, dX[row, :])
        T.atomic_add(dWeight, d_weight)

    return dX


def ref_program(X, Weight, dY):
    """(gradient of X, gradient of Weight)."""
    x, w = X.float().requires_grad_(), Weight.float().requires_grad_()
    y = x * torch.rsqrt(x.square().mean(dim=1, keepdim=True) + 1e-6) * w
    d_x, d_w = torch.autograd.grad(y, (x, w), dY.float())
    return d_x.to(X.dtype), d_w


def inputs(M: int, N: int, device: str = "cpu"):
    return (
        torch.randn(M, N, dtype=torch.float16, device=device),
        torch.randn(N, dtype=torch.float16, device=device),
        torch.randn(M, N, dtype=torch.float16, device=device),
    )


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, N = (8192, 4096) if device == "cuda" else (50, 384)
    workers = 2 * torch.cuda.get_device_properties(0).multi_processor_count if device == "cuda" else 4
    given, d_weight = inputs(M, N, device), torch.zeros(N, device=device)

    found = rms_norm_backward(*given, d_weight, workers=workers)
    expected, expected_weight = ref_program(*given)
    torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(d_weight, expected_weight, rtol=1e-3, atol=1e-2)

    latency = rms_norm_backward.compile(*given, d_weight, workers=workers).get_profiler().do_bench()
    print(f"rms_norm_backward {M}x{N} on {device}: correct, {3 * 2 * M * N / latency / 1e6:.1f} GB/s")


if __name__ == "__main__":
    main()
