"""Top-k of every row, as a router chooses its experts: the maximum and its place, k times.

Teaches: the place of a maximum by a second reduction, and a fragment that is changed between rounds.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def top_k(X, k: int = 4, rows: int = 8):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Values = T.empty((M, k), T.float32)
    Places = T.empty((M, k), T.int32)

    with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
        x = T.alloc_fragment((rows, N), T.float32)
        place = T.alloc_fragment((rows, N), T.int32)
        best = T.alloc_fragment((rows,), T.float32)
        where = T.alloc_fragment((rows,), T.int32)

        T.copy(X[bx * rows, 0], x)
        for turn in T.serial(k):
            T.reduce_max(x, best, dim=1)
            for i, j in T.Parallel(rows, N):
                place[i, j] = T.if_then_else(x[i, j] == best[i], j, N)
            T.reduce_min(place, where, dim=1)  # of equal values the first
            for i in T.Parallel(rows):
                if bx * rows + i < M:
                    Values[bx * rows + i, turn] = best[i]
                    Places[bx * rows + i, turn] = where[i]
            for i, j in T.Parallel(rows, N):
                x[i, j] = T.if_then_else(j == where[i], -T.infinity(T.float32), x[i, j])

    return Values, Places


def ref_program(X, k=4):
    values, places = torch.topk(X, k, dim=1)
    return values, places.int()


def main(M: int = 100, N: int = 60, k: int = 4) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(M, N, device=device)

    values, places = top_k(x, k)
    expected = ref_program(x, k)
    torch.testing.assert_close(values, expected[0])
    assert torch.equal(places, expected[1])

    latency = top_k.compile(x, k).get_profiler().do_bench()
    print(f"top_k {M}x{N} on {device}: correct, {4 * M * N / latency / 1e6:.1f} GB/s")


if __name__ == "__main__":
    main()
