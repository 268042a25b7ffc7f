"""Matrix times vector in int8 with exact int32 sums, four products an instruction.

Teaches: T.dp4a on private memory, and a result that is scaled once, at the end, by row and by vector.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def gemv_int8(W, Scales, x, x_scale, rows: int = 8):
    M, K, one = T.const("M, K, one")
    W: T.Tensor((M, K), T.int8)
    Scales: T.Tensor((M,), T.float32)
    x: T.Tensor((K,), T.int8)
    x_scale: T.Tensor((one,), T.float32)
    y = T.empty((M,), T.float16)

    width = 16  # numbers in 16 bytes

    with T.Kernel(T.ceildiv(M, rows), threads=(32, rows)) as bx:
        lane, row = T.get_thread_binding(0), bx * rows + T.get_thread_binding(1)
        a = T.alloc_local((width,), T.int8)
        b = T.alloc_local((width,), T.int8)
        total = T.alloc_local((1,), T.int32)

        total[0] = 0
        for step in T.serial(T.ceildiv(K, 32 * width)):
            first = (step * 32 + lane) * width
            for v in T.vectorized(width):
                a[v] = W[row, first + v]
            for v in T.vectorized(width):
                b[v] = x[first + v]
            for v in T.unroll(width // 4):
                T.dp4a(a[v * 4], b[v * 4], total[0])
        result = T.warp_reduce_sum(total[0])
        if (lane == 0) & (row < M):
            y[row] = T.cast(result, T.float32) * Scales[row] * x_scale[0]

    return y


def ref_program(W, Scales, x, x_scale):
    return ((W.double() @ x.double()) * Scales * x_scale).half()


def inputs(M: int, K: int, device: str = "cpu"):
    return (
        torch.randint(-128, 128, (M, K), dtype=torch.int8, device=device),
        torch.rand(M, device=device) / 128,
        torch.randint(-128, 128, (K,), dtype=torch.int8, device=device),
        torch.rand(1, device=device) / 128,
    )


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, K = (16384, 8192) if device == "cuda" else (100, 600)
    given = inputs(M, K, device)

    torch.testing.assert_close(gemv_int8(*given), ref_program(*given), rtol=2e-3, atol=1e-3)

    latency = gemv_int8.compile(*given).get_profiler().do_bench()
    print(f"gemv_int8 {M}x{K} on {device}: correct, {M * K / latency / 1e6:.1f} GB/s")


if __name__ == "__main__":
    main()
