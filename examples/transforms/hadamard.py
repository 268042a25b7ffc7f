"""The Hadamard transform of rows of 2^p numbers, which spreads outliers before quantisation.

Teaches: explicit threads that hold sixteen numbers each. Four butterfly steps run in registers; then the
numbers change hands through shared memory, so that the next four bits of the index lie within a thread.
"""

import torch

import tilelang
import tilelang.language as T

HELD = 16  # numbers of a thread: four bits of the index


@tilelang.jit
def hadamard(X, bits: int = 12, dtype=T.float16):
    N = 1 << bits
    M = T.const("M")
    X: T.Tensor((M, N), dtype)
    Y = T.empty((M, N), dtype)

    # (lowest of the four bits that a thread holds, first bit that is not done yet), round by round
    rounds = [(min(bit, bits - 4), bit) for bit in range(0, bits, 4)]

    with T.Kernel(M, threads=N // HELD) as row:
        thread = T.get_thread_binding(0)
        held = T.alloc_local((HELD,), T.float32)
        exchange = T.alloc_shared((N + N // 32,), T.float32)  # a gap after 32 numbers: no bank conflicts

        for e in T.vectorized(HELD):
            held[e] = X[row, thread * HELD + e]
        for low, first in rounds:  # unrolled while compiling
            if low > 0:
                for e in T.serial(HELD):
                    place = (thread >> low) * (HELD << low) + (e << low) + thread % (1 << low)
                    held[e] = exchange[place + place // 32]
            for bit in range(first, low + 4):
                half = 1 << (bit - low)
                for pair in T.serial(HELD // 2):
                    e = pair // half * (2 * half) + pair % half
                    a, b = held[e], held[e + half]
                    held[e] = a + b
                    held[e + half] = a - b
            if low < bits - 4:
                T.sync_threads()  # the numbers before have been read
                for e in T.serial(HELD):
                    place = (thread >> low) * (HELD << low) + (e << low) + thread % (1 << low)
                    exchange[place + place // 32] = held[e]
                T.sync_threads()
        for e in T.serial(HELD):
            Y[row, (e << (bits - 4)) + thread] = held[e] * N**-0.5

    return Y


def ref_program(X):
    x = X.float()
    step = 1
    while step < x.shape[1]:
        pairs = x.reshape(x.shape[0], -1, 2, step)
        x = torch.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], dim=2)
        x = x.reshape(X.shape)
        step *= 2
    return (x * X.shape[1] ** -0.5).to(X.dtype)


def inputs(M: int, N: int, device: str = "cpu"):
    return (torch.randn(M, N, dtype=torch.float16, device=device),)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, bits = (16384, 12) if device == "cuda" else (10, 9)
    given = inputs(M, 1 << bits, device)

    torch.testing.assert_close(hadamard(*given, bits=bits), ref_program(*given), rtol=2e-3, atol=2e-3)

    latency = hadamard.compile(*given, bits=bits).get_profiler().do_bench()
    print(f"hadamard {M}x{1 << bits} on {device}: correct, {4 * M * (1 << bits) / latency / 1e6:.1f} GB/s")


if __name__ == "__main__":
    main()
