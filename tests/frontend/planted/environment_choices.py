"""A kernel with a planted mistake, in this style: environment choices."""

import os
from os import environ
import tilelang
import tilelang.language as T

DEBUG = bool(int(environ.get("DEBUG", "0")))
BM = int(os.environ["BM"]) if "BM" in os.environ else 64
BN = 64 if os.environ.get("SMALL") else 128
THREADS = int(os.environ.get("THREADS", 128) or 128)


@tilelang.jit
def k(A):
    M, N = T.const("M N")
    A: T.Tensor((M, N), T.float16)
    O = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(M, BM), T.ceildiv(N, BN), threads=THREADS) as (i, j):
        s = T.alloc_shared((BM, BN), T.float16)
        f = T.alloc_fragment((BM, BN + 1), T.float16)
        if DEBUG:
            T.print(s)
        T.copy(A[i * BM, j * BN], s)
        T.copy(s, f)  # wrong
        T.copy(f[:, :BN], O[i * BM, j * BN])
    return O
