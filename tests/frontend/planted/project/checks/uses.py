"""A kernel with a planted mistake, in this style: uses."""

import sys
import os

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import tilelang
import tilelang.language as T
from kernels.cfg import BIG, SMALL
from kernels.use import k as other


@tilelang.jit
def k(A):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, SMALL.m), threads=128) as b:
        s = T.alloc_shared(tuple(SMALL), T.float32)
        f = T.alloc_fragment(BIG, T.float32)
        T.copy(A[b * 64, 0], s)
        T.copy(s, f)  # wrong
        T.copy(f, A[b * 64, 0])
