"""Matrix times vector with explicit threads: a warp for each row, eight numbers a load, the sum by shuffles.

Teaches: T.get_thread_binding for a block of 32 x rows threads, private memory in T.alloc_local, a 16-byte
load as T.vectorized, and T.warp_reduce_sum, which needs neither shared memory nor a barrier.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def gemv_split(A, x, rows: int = 8, dtype=T.float16):
    M, K = T.const("M, K")
    A: T.Tensor((M, K), dtype)
    x: T.Tensor((K,), dtype)
    y = T.empty((M,), dtype)

    width = 8  # numbers in 16 bytes

    with T.Kernel(T.ceildiv(M, rows), threads=(32, rows)) as bx:
        lane, row = T.get_thread_binding(0), bx * rows + T.get_thread_binding(1)
        a = T.alloc_local((width,), dtype)
        b = T.alloc_local((width,), dtype)
        total = T.alloc_var(T.float32, init=0)

        for step in T.serial(T.ceildiv(K, 32 * width)):
            first = (step * 32 + lane) * width
            for v in T.vectorized(width):  # what lies outside is zero
                a[v] = A[row, first + v]
            for v in T.vectorized(width):
                b[v] = x[first + v]
            for v in T.serial(width):
                total += T.cast(a[v], T.float32) * T.cast(b[v], T.float32)
        result = T.warp_reduce_sum(total)
        if (lane == 0) & (row < M):
            y[row] = result

    return y


def ref_program(A, x):
    return (A.float() @ x.float()).to(A.dtype)


def inputs(M: int, K: int, device: str = "cpu"):
    return (
        torch.randn(M, K, dtype=torch.float16, device=device),
        torch.randn(K, dtype=torch.float16, device=device),
    )


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, K = (16384, 8192) if device == "cuda" else (100, 600)
    given = inputs(M, K, device)

    torch.testing.assert_close(gemv_split(*given), ref_program(*given), rtol=2e-3, atol=5e-2)

    latency = gemv_split.compile(*given).get_profiler().do_bench()
    print(f"gemv_split {M}x{K} on {device}: correct, {2 * M * K / latency / 1e6:.1f} GB/s")


if __name__ == "__main__":
    main()
