"""A kernel with a planted mistake, in this style: class constants."""

import tilelang
import tilelang.language as T


class Params:
    block_M = 64
    block_K = 32

    class Nested:
        stages = 2


class Kern:
    P = Params

    @staticmethod
    @tilelang.jit
    def run(A):
        M, K = T.const("M, K")
        A: T.Tensor((M, K), T.float16)
        O = T.empty((M, K), T.float16)
        with T.Kernel(T.ceildiv(M, Params.block_M), threads=128) as i:
            t = T.alloc_shared((Params.block_M, Kern.P.block_K), T.float16)
            for k in T.Pipelined(T.ceildiv(K, Params.block_K), num_stages=Params.Nested.stages):
                T.copy(A[i * Params.block_M, k * Params.block_K], t)
                for x, y in T.Parallel(Params.block_M, Params.block_K):
                    t[x, y + 1] = t[x, y]  # wrong
                T.copy(t, O[i * Params.block_M, k * Params.block_K])
        return O
