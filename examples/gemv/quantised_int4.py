"""Matrix times vector with 4-bit weights in groups with one scale, as decoding with a quantised model does.

Teaches: the bytes are the work: eight bytes, sixteen weights, are one load of a thread; a group's scale is
applied once to the sum of its products, and not to each weight.
"""

import torch

import tilelang
import tilelang.language as T

GROUP = 64  # weights with one scale; a multiple of 16


@tilelang.jit
def gemv_int4(W, Scales, x, rows: int = 8):
    M, half_K, groups, K = T.const("M, half_K, groups, K")
    W: T.Tensor((M, half_K), T.uint8)  # weight 2i in the low half of byte i; + 8
    Scales: T.Tensor((M, groups), T.float16)
    x: T.Tensor((K,), T.float16)
    y = T.empty((M,), T.float16)

    with T.Kernel(T.ceildiv(M, rows), threads=(32, rows)) as bx:
        lane, row = T.get_thread_binding(0), bx * rows + T.get_thread_binding(1)
        packed = T.alloc_local((8,), T.uint8)
        given = T.alloc_local((16,), T.float16)
        part = T.alloc_var(T.float32)
        total = T.alloc_var(T.float32, init=0)

        for step in T.serial(T.ceildiv(K, 32 * 16)):
            first = (step * 32 + lane) * 16
            for v in T.vectorized(8):
                packed[v] = W[row, first // 2 + v]
            for v in T.vectorized(16):  # zero outside, so that no weight counts there
                given[v] = x[first + v]
            part = 0
            for v in T.serial(8):
                low = T.cast(packed[v] & T.uint8(15), T.float32) - 8
                high = T.cast(packed[v] >> T.uint8(4), T.float32) - 8
                part += low * T.cast(given[2 * v], T.float32) + high * T.cast(given[2 * v + 1], T.float32)
            total += part * T.cast(Scales[row, first // GROUP], T.float32)
        result = T.warp_reduce_sum(total)
        if (lane == 0) & (row < M):
            y[row] = result

    return y


def ref_program(W, Scales, x):
    nibbles = torch.stack([W & 15, W >> 4], dim=-1).reshape(W.shape[0], -1).float() - 8
    weights = nibbles * Scales.float().repeat_interleave(GROUP, dim=1)[:, : nibbles.shape[1]]
    return (weights @ x.float()).half()


def inputs(M: int, K: int, device: str = "cpu"):
    return (
        torch.randint(0, 256, (M, K // 2), dtype=torch.uint8, device=device),
        torch.rand(M, -(-K // GROUP), device=device).half() / 8,
        torch.randn(K, dtype=torch.float16, device=device),
    )


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, K = (16384, 8192) if device == "cuda" else (100, 640)
    given = inputs(M, K, device)

    torch.testing.assert_close(gemv_int4(*given), ref_program(*given), rtol=2e-3, atol=5e-2)

    latency = gemv_int4.compile(*given).get_profiler().do_bench()
    print(f"gemv_int4 {M}x{K} on {device}: correct, {M * K / 2 / latency / 1e6:.1f} GB/s of weights")


if __name__ == "__main__":
    main()
