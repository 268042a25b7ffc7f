"""A kernel with a planted mistake, in this style: use."""

import tilelang
import tilelang.language as T
import kernels.cfg as cfg
from kernels import cfg as cfg2
import kernels.cfg


@tilelang.jit
def k(A):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, cfg.SMALL.m), threads=128) as b:
        s = T.alloc_shared(tuple(cfg.SMALL), T.float32)
        f = T.alloc_fragment((cfg2.BIG.m, kernels.cfg.BIG.n), T.float32)
        T.copy(A[b * 64, 0], s)
        T.copy(s, f)  # wrong
        T.copy(f, A[b * 64, 0])
