"""Softmax of rows that fit into a block's registers: read once, written once.

Teaches: when the online softmax is not needed. The whole row is one fragment, so maximum, sum and result are
three passes over registers, and memory sees each number twice only.
"""

import torch

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634  # exp(x) = exp2(x * LOG2_E)


@tilelang.jit
def softmax_in_registers(X, rows: int = 1, threads: int = 256, dtype=T.bfloat16):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    Y = T.empty((M, N), dtype)

    with T.Kernel(T.ceildiv(M, rows), threads=threads) as bx:
        x = T.alloc_fragment((rows, N), T.float32)
        top = T.alloc_fragment((rows,), T.float32)
        total = T.alloc_fragment((rows,), T.float32)

        T.copy(X[bx * rows, 0], x)
        T.reduce_max(x, top, dim=1)
        for i, j in T.Parallel(rows, N):
            x[i, j] = T.exp2((x[i, j] - top[i]) * LOG2_E)
        T.reduce_sum(x, total, dim=1)
        for i, j in T.Parallel(rows, N):
            x[i, j] /= total[i]
        T.copy(x, Y[bx * rows, 0])

    return Y


def ref_program(X):
    return torch.softmax(X.float(), dim=1).to(X.dtype)


def inputs(M: int, N: int, device: str = "cpu"):
    return (torch.randn(M, N, device=device).mul(4).to(torch.bfloat16),)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, N = (8192, 8192) if device == "cuda" else (30, 384)
    given = inputs(M, N, device)

    torch.testing.assert_close(softmax_in_registers(*given), ref_program(*given), rtol=1.6e-2, atol=1e-5)

    latency = softmax_in_registers.compile(*given).get_profiler().do_bench()
    print(f"softmax_in_registers {M}x{N} on {device}: correct, {4 * M * N / latency / 1e6:.1f} GB/s")


if __name__ == "__main__":
    main()
