"""GEMM with MXFP4 weights: 4-bit floats (e2m1) in groups of 32 that share a power of two, stored as 8 bits.

Teaches: a scale that is only an exponent. Its byte moved into the exponent field is the bfloat16 it stands
for, and scaling by it rounds nothing; with few rows of A, K is split so that all multiprocessors have work.
"""

import torch

import tilelang
import tilelang.language as T

GROUP = 32  # weights with one exponent
VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # of the codes 0 to 7; 8 to 15 are their negatives


@tilelang.jit
def gemm_mxfp4(
    A,
    B,
    Exponents,
    C,
    splits: int = 4,
    block_M: int = 64,
    block_N: int = 128,
    block_K: int = 128,
    num_stages: int = 3,
    threads: int = 128,
):
    M, N, K, half_K, groups = T.const("M, N, K, half_K, groups")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((N, half_K), T.uint8)  # weight 2i in the low half of byte i
    Exponents: T.Tensor((N, groups), T.uint8)  # e stands for 2^(e - 127)
    C: T.Tensor((M, N), T.float32)  # zero at first: the splits add to it

    steps = T.ceildiv(T.ceildiv(K, block_K), splits)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), splits, threads=threads) as (bx, by, bz):
        A_shared = T.alloc_shared((block_M, block_K), T.bfloat16)
        packed = T.alloc_shared((block_N, block_K // 2), T.uint8)
        exponents = T.alloc_shared((block_N, block_K // GROUP), T.uint8)
        weights = T.alloc_shared((block_N, block_K), T.bfloat16)
        acc = T.alloc_fragment((block_M, block_N), T.float32)

        T.clear(acc)
        for step in T.Pipelined(steps, num_stages=num_stages):
            k = bz * steps + step
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[bx * block_N, k * (block_K // 2)], packed)
            T.copy(Exponents[bx * block_N, k * (block_K // GROUP)], exponents)
            for i, j in T.Parallel(block_N, block_K):
                code = T.cast(packed[i, j // 2] >> T.cast(j % 2 * 4, T.uint8), T.uint16)
                sign, rest = (code & T.uint16(8)) << T.uint16(12), (code & T.uint16(7)) << T.uint16(9)
                # e2m1 in the place of a float16's bits is 2^14 too small.
                value = T.cast(T.reinterpret(sign | rest, T.float16) * T.float16(16384), T.bfloat16)
                scale = T.reinterpret(T.cast(exponents[i, j // GROUP], T.uint16) << T.uint16(7), T.bfloat16)
                weights[i, j] = value * scale
            T.gemm(A_shared, weights, acc, transpose_B=True)
        T.atomic_add(C[by * block_M, bx * block_N], acc)


def unpack(B, Exponents):
    """The weights that the bytes stand for."""
    table = torch.tensor([*VALUES, *(-v for v in VALUES)], device=B.device)
    codes = torch.stack([B & 15, B >> 4], dim=-1).reshape(B.shape[0], -1)
    scales = torch.exp2(Exponents.float() - 127).repeat_interleave(GROUP, dim=1)
    return table[codes.long()] * scales


def ref_program(A, B, Exponents, C):
    C += A.float() @ unpack(B, Exponents).T


def inputs(M: int, N: int, K: int, device: str = "cpu"):
    return (
        torch.randn(M, K, dtype=torch.bfloat16, device=device),
        torch.randint(0, 256, (N, K // 2), dtype=torch.uint8, device=device),
        torch.randint(120, 130, (N, K // GROUP), dtype=torch.uint8, device=device),
        torch.zeros(M, N, device=device),
    )


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, N, K = (64, 8192, 8192) if device == "cuda" else (30, 136, 416)
    given = inputs(M, N, K, device)
    expected = torch.zeros_like(given[3])
    ref_program(given[0], given[1], given[2], expected)

    gemm_mxfp4(*given)
    torch.testing.assert_close(given[3], expected, rtol=1e-3, atol=1e-2)

    latency = gemm_mxfp4.compile(*given).get_profiler().do_bench()
    print(f"gemm_mxfp4 {M}x{N}x{K} on {device}: correct, {N * K / 2 / latency / 1e6:.1f} GB/s of weights")


if __name__ == "__main__":
    main()
