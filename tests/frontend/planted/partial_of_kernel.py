"""A kernel with a planted mistake, in this style: partial of kernel."""

import functools
import tilelang
import tilelang.language as T


def _mm(M, N, K, bm, bn, bk, dtype="float16"):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=128) as (bx, by):
            a = T.alloc_shared((bm, bk), dtype)
            b = T.alloc_shared((bk, bn), dtype)
            c = T.alloc_fragment((bm, bn), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=2):
                T.copy(A[by * bm, k * bk], a)
                T.copy(B[k * bk, bx * bn], b)
                T.gemm(a, b, c, transpose_B=True)  # wrong
            T.copy(c, C[by * bm, bx * bn])

    return main


mm = functools.partial(tilelang.jit(out_idx=[-1])(_mm), bm=128, bn=128, bk=32)
k = mm(1024, 1024, 1024)
