"""Grouped GEMM: the rows of A come in groups of different lengths, and each group has a matrix B of its own.

Teaches: lengths known only on the device. The grid is an upper bound, each block finds its group from the
offsets, and blocks with nothing to do leave at once.
"""

import itertools

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def gemm_grouped(
    A,
    B,
    Offsets,
    block_M: int = 128,
    block_N: int = 128,
    block_K: int = 64,
    num_stages: int = 3,
    threads: int = 128,
    dtype=T.bfloat16,
):
    total, groups, N, K, bounds = T.const("total, groups, N, K, bounds")
    A: T.Tensor((total, K), dtype)
    B: T.Tensor((groups, N, K), dtype)
    Offsets: T.Tensor((bounds,), T.int32)  # group g has the rows Offsets[g] to Offsets[g + 1]
    C = T.empty((total, N), dtype)

    # Each group may end with a tile that is not full.
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(total, block_M) + groups, threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), dtype)
        B_shared = T.alloc_shared((block_N, block_K), dtype)
        acc = T.alloc_fragment((block_M, block_N), T.float32)
        group = T.alloc_var(T.int32, init=0)
        first = T.alloc_var(T.int32, init=total)  # the tile's first row
        tiles = T.alloc_var(T.int32, init=0)  # of the groups so far

        for g in T.serial(groups):
            own = T.ceildiv(Offsets[g + 1] - Offsets[g], block_M)
            if (by >= tiles) & (by < tiles + own):
                group = g
                first = Offsets[g] + (by - tiles) * block_M
            tiles += own

        if first < total:
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[first, k * block_K], A_shared)
                T.copy(B[group, bx * block_N, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, acc, transpose_B=True)
            for i, j in T.Parallel(block_M, block_N):
                # Rows past the end of the group belong to the next one.
                if (first + i < Offsets[group + 1]) & (bx * block_N + j < N):
                    C[first + i, bx * block_N + j] = acc[i, j]

    return C


def ref_program(A, B, Offsets):
    ends = Offsets.tolist()
    parts = [A[s:e].float() @ B[g].float().T for g, (s, e) in enumerate(itertools.pairwise(ends))]
    return torch.cat(parts).to(A.dtype)


def inputs(lengths: tuple[int, ...], N: int, K: int, device: str = "cpu"):
    offsets = torch.tensor([0, *lengths]).cumsum(0).to(device, torch.int32)
    return (
        torch.randn(sum(lengths), K, dtype=torch.bfloat16, device=device),
        torch.randn(len(lengths), N, K, dtype=torch.bfloat16, device=device),
        offsets,
    )


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    lengths = (1000, 24, 2048, 0, 3000, 517, 1, 1602) if device == "cuda" else (130, 1, 0, 69)
    N, K = (4096, 2048) if device == "cuda" else (136, 104)
    given = inputs(lengths, N, K, device)

    torch.testing.assert_close(gemm_grouped(*given), ref_program(*given), rtol=1.6e-2, atol=1e-1)

    latency = gemm_grouped.compile(*given).get_profiler().do_bench(input_tensors=list(given))
    speed = 2 * sum(lengths) * N * K / latency / 1e9
    print(f"gemm_grouped {len(lengths)} groups on {device}: correct, {speed:.3f} TFLOP/s")


if __name__ == "__main__":
    main()
