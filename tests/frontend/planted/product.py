"""A kernel with a planted mistake, in this style: product."""

import itertools
import tilelang
import tilelang.language as T


def get_configs():
    block_M = [64, 128]
    block_N = [64, 128]
    block_K = [32, 64]
    stages = [1, 2, 3]
    combos = list(itertools.product(block_M, block_N, block_K, stages))
    return [
        {"block_M": c[0], "block_N": c[1], "block_K": c[2], "num_stages": c[3]}
        for c in combos
        if c[0] * c[2] * 2 * c[3] + c[1] * c[2] * 2 * c[3] <= 96 * 1024 and c[0] >= c[1]
    ]


@tilelang.autotune(configs=get_configs(), warmup=3, rep=20)
@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, block_M=None, block_N=None, block_K=None, num_stages=None):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            a = T.alloc_shared((block_M, block_K), "float16")
            b = T.alloc_shared((block_N, block_K), "float16")
            c = T.alloc_fragment((block_M, block_N + 16), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], a)
                T.copy(B[bx * block_N, k * block_K], b)
                T.gemm(a, b, c, transpose_B=True)  # wrong
            T.copy(c, C[by * block_M, bx * block_N])

    return main


if __name__ == "__main__":
    matmul(4096, 4096, 4096)
