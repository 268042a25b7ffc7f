"""SwiGLU: silu(gate) * up, with gate and up as the two halves of each row, as one GEMM leaves them.

Teaches: a view that gives the parts of a tensor their own bounds. With nothing to share between threads the
fusion needs no tile, only T.Parallel, whose innermost loop the compiler makes into wide loads and stores.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def swiglu(X, block_M: int = 4, block_N: int = 512, threads: int = 256, dtype=T.bfloat16):
    M, both = T.const("M, both")
    X: T.Tensor((M, both), dtype)
    N = both // 2
    Y = T.empty((M, N), dtype)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        halves = T.reshape(X, (M, 2, N))  # each half with bounds of its own
        for i, j in T.Parallel(block_M, block_N):
            row, column = by * block_M + i, bx * block_N + j
            gate = T.cast(halves[row, 0, column], T.float32)
            up = T.cast(halves[row, 1, column], T.float32)
            Y[row, column] = gate / (1 + T.exp(-gate)) * up

    return Y


def ref_program(X):
    gate, up = X.float().chunk(2, dim=1)
    return (torch.nn.functional.silu(gate) * up).to(X.dtype)


def inputs(M: int, N: int, device: str = "cpu"):
    return (torch.randn(M, 2 * N, device=device).to(torch.bfloat16),)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, N = (8192, 14336) if device == "cuda" else (30, 600)
    given = inputs(M, N, device)

    torch.testing.assert_close(swiglu(*given), ref_program(*given), rtol=1.6e-2, atol=1e-5)

    latency = swiglu.compile(*given).get_profiler().do_bench()
    print(f"swiglu {M}x{N} on {device}: correct, {3 * 2 * M * N / latency / 1e6:.1f} GB/s")


if __name__ == "__main__":
    main()
