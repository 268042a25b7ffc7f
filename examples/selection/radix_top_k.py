"""The k largest of long rows, for any k: a radix select, eight bits of the numbers at a time.

Teaches: a histogram with atomics in shared memory, floats as integers of the same order, and places handed
out by an atomic counter. The result is in no order; sort the k values where it matters.
"""

import torch

import tilelang
import tilelang.language as T


@T.macro
def ordered(value):
    """A float32 as a uint32 of the same order: negatives with all bits turned, others with the sign bit."""
    bits = T.reinterpret(value, T.uint32)
    return T.if_then_else(bits >> 31 == 1, ~bits, bits | T.uint32(0x80000000))


@tilelang.jit
def top_k(X, k: int = 64, threads: int = 256):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Values = T.empty((M, k), T.float32)
    Places = T.empty((M, k), T.int32)

    with T.Kernel(M, threads=threads) as row:
        histogram = T.alloc_shared((256,), T.int32)
        taken = T.alloc_shared((2,), T.int32)  # numbers written: larger than the k-th, and equal to it
        chosen = T.alloc_var(T.uint32, init=0)  # the bits of the k-th largest that are known
        missing = T.alloc_var(T.int32, init=k)  # how many of those with these bits belong to the k
        above = T.alloc_var(T.int32)
        digit = T.alloc_var(T.int32)

        for shift in [24, 16, 8, 0]:  # unrolled while compiling
            T.clear(histogram)
            for j in T.Parallel(N):
                key = ordered(X[row, j])
                if shift == 24 or key >> (shift + 8) == chosen >> (shift + 8):
                    T.atomic_add(histogram[T.cast((key >> shift) & 255, T.int32)], 1)
            # From the largest digit down, until the k-th is among those counted.
            above, digit = 0, 255
            while (digit > 0) & (above + histogram[digit] < missing):
                above += histogram[digit]
                digit -= 1
            missing -= above
            chosen = chosen | (T.cast(digit, T.uint32) << shift)

        T.clear(taken)
        for j in T.Parallel(N):
            key = ordered(X[row, j])
            if key > chosen:
                place = T.atomic_add(taken[0], 1, return_prev=True)
                Values[row, place] = X[row, j]
                Places[row, place] = j
            elif key == chosen:  # of equal numbers only as many as are missing
                place = T.atomic_add(taken[1], 1, return_prev=True)
                if place < missing:
                    Values[row, k - missing + place] = X[row, j]
                    Places[row, k - missing + place] = j

    return Values, Places


def ref_program(X, k=64):
    values, places = torch.topk(X, k, dim=1)
    return values, places.int()


def inputs(M: int, N: int, device: str = "cpu"):
    return (torch.randn(M, N, device=device),)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, N, k = (1024, 65536, 256) if device == "cuda" else (4, 3000, 40)
    given = inputs(M, N, device)

    values, places = top_k(*given, k=k)
    assert torch.equal(values.sort(dim=1, descending=True).values, ref_program(given[0], k)[0])
    assert torch.equal(given[0].gather(1, places.long()), values)

    latency = top_k.compile(*given, k=k).get_profiler().do_bench()
    print(f"top_k {k} of {M}x{N} on {device}: correct, {4 * M * N / latency / 1e6:.1f} GB/s")


if __name__ == "__main__":
    main()
