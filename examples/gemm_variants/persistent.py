"""Persistent GEMM: as many blocks as the device has multiprocessors, and each works through many tiles.

Teaches: T.Persistent, which deals the tiles out in groups that share the L2 cache, and one set of buffers
for all the tiles of a block.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def gemm_persistent(
    A,
    B,
    workers: int = 132,
    block_M: int = 128,
    block_N: int = 128,
    block_K: int = 64,
    num_stages: int = 3,
    threads: int = 128,
    dtype=T.float16,
):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), dtype)
    B: T.Tensor((K, N), dtype)
    C = T.empty((M, N), dtype)

    with T.Kernel(workers, threads=threads) as worker:
        A_shared = T.alloc_shared((block_M, block_K), dtype)
        B_shared = T.alloc_shared((block_K, block_N), dtype)
        acc = T.alloc_fragment((block_M, block_N), T.float32)

        # Tile by tile: workers that run at the same time take neighbours, eight rows of tiles at a time.
        tiles = [T.ceildiv(M, block_M), T.ceildiv(N, block_N)]
        for by, bx in T.Persistent(tiles, workers, worker, group_size=8):
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, acc)
            T.copy(acc, C[by * block_M, bx * block_N])

    return C


def ref_program(A, B):
    return (A.float() @ B.float()).to(A.dtype)


def inputs(M: int, N: int, K: int, device: str = "cpu"):
    return (
        torch.randn(M, K, dtype=torch.float16, device=device),
        torch.randn(K, N, dtype=torch.float16, device=device),
    )


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, N, K = (4096, 4096, 4096) if device == "cuda" else (300, 264, 200)
    workers = torch.cuda.get_device_properties(0).multi_processor_count if device == "cuda" else 4
    given = inputs(M, N, K, device)

    torch.testing.assert_close(
        gemm_persistent(*given, workers=workers), ref_program(*given), rtol=2e-3, atol=5e-2
    )

    latency = gemm_persistent.compile(*given, workers=workers).get_profiler().do_bench()
    print(f"gemm_persistent {M}x{N}x{K} on {device}: correct, {2 * M * N * K / latency / 1e9:.3f} TFLOP/s")


if __name__ == "__main__":
    main()
