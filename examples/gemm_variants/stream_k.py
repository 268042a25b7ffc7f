"""Stream-K GEMM: the steps over K of all output tiles form one line, cut into equal parts for the blocks.

Teaches: a while loop over a T.alloc_var, a pipelined loop whose length is known at run time, and tiles that
several blocks add up with T.atomic_add. No multiprocessor waits for a last, half-empty wave.
"""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def gemm_stream_k(
    A,
    B,
    C,
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
    C: T.Tensor((M, N), T.float32)  # zero at first: blocks that share a tile add to it

    columns = T.ceildiv(N, block_N)
    steps = T.ceildiv(K, block_K)
    total = T.ceildiv(M, block_M) * columns * steps

    with T.Kernel(workers, threads=threads) as worker:
        A_shared = T.alloc_shared((block_M, block_K), dtype)
        B_shared = T.alloc_shared((block_K, block_N), dtype)
        acc = T.alloc_fragment((block_M, block_N), T.float32)

        at = T.alloc_var(T.int32, init=worker * total // workers)
        end = (worker + 1) * total // workers
        while at < end:
            tile, first = at // steps, at % steps
            by, bx = tile // columns, tile % columns
            count = T.min(steps - first, end - at)  # this block's steps of the tile
            T.clear(acc)
            for k in T.Pipelined(count, num_stages=num_stages):
                T.copy(A[by * block_M, (first + k) * block_K], A_shared)
                T.copy(B[(first + k) * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, acc)
            if count == steps:
                T.copy(acc, C[by * block_M, bx * block_N])
            else:
                T.atomic_add(C[by * block_M, bx * block_N], acc)
            at += count


def ref_program(A, B, C):
    C += A.float() @ B.float()


def inputs(M: int, N: int, K: int, device: str = "cpu"):
    return (
        torch.randn(M, K, dtype=torch.float16, device=device),
        torch.randn(K, N, dtype=torch.float16, device=device),
        torch.zeros(M, N, device=device),
    )


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, N, K = (1920, 2048, 8192) if device == "cuda" else (200, 264, 600)
    workers = torch.cuda.get_device_properties(0).multi_processor_count if device == "cuda" else 5
    a, b, c = inputs(M, N, K, device)

    gemm_stream_k(a, b, c, workers=workers)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-3, atol=1e-1)

    latency = gemm_stream_k.compile(a, b, c, workers=workers).get_profiler().do_bench()
    print(f"gemm_stream_k {M}x{N}x{K} on {device}: correct, {2 * M * N * K / latency / 1e9:.3f} TFLOP/s")


if __name__ == "__main__":
    main()
