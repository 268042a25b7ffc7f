"""Log-sum-exp of long rows by several blocks each: first the parts, then, in a second launch, their sum.

Teaches: two kernels in one function, a workspace that the caller never sees (T.alloc_global), and how maxima
and sums of parts come together: every sum is scaled from its own maximum to the common one.
"""

import torch

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634
LN_2 = 0.6931471805599453


@tilelang.jit
def log_sum_exp(X, chunk: int = 8192, block: int = 1024, threads: int = 128, dtype=T.float32):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    Y = T.empty((M,), T.float32)

    parts = T.ceildiv(N, chunk)
    part_max = T.alloc_global((M, parts), T.float32)
    part_sum = T.alloc_global((M, parts), T.float32)

    with T.Kernel(parts, M, threads=threads) as (part, row):
        x = T.alloc_fragment((block,), T.float32)
        top = T.alloc_fragment((1,), T.float32)
        top_before = T.alloc_fragment((1,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        tile_sum = T.alloc_fragment((1,), T.float32)

        T.fill(top, -1e30)  # finite: the difference of two infinities is no number
        T.clear(total)
        for t in T.serial(chunk // block):
            for j in T.Parallel(block):
                place = part * chunk + t * block + j
                x[j] = T.if_then_else(place < N, X[row, place] * LOG2_E, -T.infinity(T.float32))
            T.copy(top, top_before)
            T.reduce_max(x, top, dim=0, clear=False)
            for j in T.Parallel(block):
                x[j] = T.exp2(x[j] - top[0])
            T.reduce_sum(x, tile_sum, dim=0)
            total[0] = total[0] * T.exp2(top_before[0] - top[0]) + tile_sum[0]
        part_max[row, part] = top[0]
        part_sum[row, part] = total[0]

    with T.Kernel(M, threads=32) as row:
        tops = T.alloc_fragment((parts,), T.float32)
        sums = T.alloc_fragment((parts,), T.float32)
        most = T.alloc_fragment((1,), T.float32)
        whole = T.alloc_fragment((1,), T.float32)

        T.copy(part_max[row, :], tops)
        T.copy(part_sum[row, :], sums)
        T.reduce_max(tops, most, dim=0)
        for j in T.Parallel(parts):
            sums[j] *= T.exp2(tops[j] - most[0])
        T.reduce_sum(sums, whole, dim=0)
        Y[row] = (T.log2(whole[0]) + most[0]) * LN_2

    return Y


def ref_program(X):
    return torch.logsumexp(X.float(), dim=1)


def inputs(M: int, N: int, device: str = "cpu"):
    return (torch.randn(M, N, device=device) * 4,)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, N = (512, 131072) if device == "cuda" else (5, 20000)
    given = inputs(M, N, device)

    torch.testing.assert_close(log_sum_exp(*given), ref_program(*given), rtol=1e-5, atol=1e-5)

    latency = log_sum_exp.compile(*given).get_profiler().do_bench()
    print(f"log_sum_exp {M}x{N} on {device}: correct, {4 * M * N / latency / 1e6:.1f} GB/s")


if __name__ == "__main__":
    main()
