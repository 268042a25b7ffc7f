"""GEMM with block-sparse weights: only the blocks of B that hold something are stored, read and multiplied.

Teaches: a pipelined loop over a list that is known only on the device, with addresses read from memory, and
compressed block columns as format.
"""

import itertools

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def gemm_block_sparse(
    A,
    Blocks,
    Rows,
    Starts,
    block_M: int = 128,
    block_N: int = 128,
    block_K: int = 64,
    num_stages: int = 3,
    threads: int = 128,
    dtype=T.float16,
):
    M, K, stored, bounds = T.const("M, K, stored, bounds")
    A: T.Tensor((M, K), dtype)
    Blocks: T.Tensor((stored, block_K, block_N), dtype)
    Rows: T.Tensor((stored,), T.int32)  # which block row of B each block is
    Starts: T.Tensor((bounds,), T.int32)  # block column c has the blocks Starts[c] to Starts[c + 1]
    columns = bounds - 1
    C = T.empty((M, columns * block_N), dtype)

    with T.Kernel(columns, T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), dtype)
        B_shared = T.alloc_shared((block_K, block_N), dtype)
        acc = T.alloc_fragment((block_M, block_N), T.float32)

        first = Starts[bx]
        T.clear(acc)
        for s in T.Pipelined(Starts[bx + 1] - first, num_stages=num_stages):
            T.copy(A[by * block_M, Rows[first + s] * block_K], A_shared)
            T.copy(Blocks[first + s, :, :], B_shared)
            T.gemm(A_shared, B_shared, acc)
        T.copy(acc, C[by * block_M, bx * block_N])

    return C


def dense(Blocks, Rows, Starts, K):
    """B as a full matrix."""
    _, block_K, block_N = Blocks.shape
    starts = Starts.tolist()
    full = torch.zeros(K, (len(starts) - 1) * block_N, dtype=Blocks.dtype, device=Blocks.device)
    for column, (start, end) in enumerate(itertools.pairwise(starts)):
        for s in range(start, end):
            row = int(Rows[s]) * block_K
            full[row : row + block_K, column * block_N : (column + 1) * block_N] = Blocks[s]
    return full


def ref_program(A, Blocks, Rows, Starts):
    return (A.float() @ dense(Blocks, Rows, Starts, A.shape[1]).float()).to(A.dtype)


def inputs(
    M: int, N: int, K: int, device: str = "cpu", density: float = 0.25, block_K: int = 64, block_N: int = 128
):
    torch.manual_seed(0)
    held = torch.rand(N // block_N, K // block_K) < density
    held[0] = False  # a column without blocks is a column of zeros
    rows = held.nonzero()[:, 1].to(device, torch.int32)
    starts = torch.nn.functional.pad(held.sum(1).cumsum(0), (1, 0)).to(device, torch.int32)
    blocks = torch.randn(len(rows), block_K, block_N, dtype=torch.float16, device=device)
    return torch.randn(M, K, dtype=torch.float16, device=device), blocks, rows, starts


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, N, K = (4096, 4096, 4096) if device == "cuda" else (150, 384, 512)
    given = inputs(M, N, K, device)

    torch.testing.assert_close(gemm_block_sparse(*given), ref_program(*given), rtol=2e-3, atol=5e-2)

    latency = gemm_block_sparse.compile(*given).get_profiler().do_bench(input_tensors=list(given))
    speed = 2 * M * given[1].numel() / latency / 1e9
    print(f"gemm_block_sparse {M}x{N}x{K} on {device}: correct, {speed:.3f} TFLOP/s of stored blocks")


if __name__ == "__main__":
    main()
