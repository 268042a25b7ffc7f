"""A kernel with a planted mistake, in this style: environment."""

import os
import tilelang
import tilelang.language as T

BLOCK = int(os.environ.get("TL_BLOCK", "128"))
STAGES = int(os.getenv("TL_STAGES", 3))
DTYPE = os.environ.get("DT", "float16")


@tilelang.jit
def mm(A, B, bk: int = 32):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), DTYPE)
    B: T.Tensor((K, N), DTYPE)
    C = T.empty((M, N), DTYPE)
    with T.Kernel(T.ceildiv(N, BLOCK), T.ceildiv(M, BLOCK), threads=128) as (bx, by):
        a = T.alloc_shared((BLOCK, bk), DTYPE)
        b = T.alloc_shared((BLOCK, bk), DTYPE)
        c = T.alloc_fragment((BLOCK, BLOCK), "float32")
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, bk), num_stages=STAGES):
            T.copy(A[by * BLOCK, k * bk], a)
            T.copy(B[k * bk, bx * BLOCK], b)
            T.gemm(a, b, c)  # wrong
        T.copy(c, C[by * BLOCK, bx * BLOCK])
    return C
