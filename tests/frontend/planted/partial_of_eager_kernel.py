"""A kernel with a planted mistake, in this style: partial of eager kernel."""

from functools import partial
import tilelang
from tilelang import language as T

BLOCKS = dict(bm=64, bk=32)


def _scale(A, s, bm, bk):
    M, K = T.const("M, K")
    A: T.Tensor((M, K), T.float16)
    s: T.Tensor((M,), T.float16)
    B = T.empty((M, K), T.float16)
    with T.Kernel(T.ceildiv(M, bm), T.ceildiv(K, bk), threads=128) as (i, j):
        t = T.alloc_shared((bm, bk), T.float16)
        T.copy(A[i * bm, j * bk], t)
        for x, y in T.Parallel(bm, bk):
            t[x, y] = t[y, x] * s[i * bm + x]  # wrong
        T.copy(t, B[i * bm, j * bk])
    return B


scale = partial(tilelang.jit(_scale), **BLOCKS)


def run(a, s):
    return scale(a, s)
