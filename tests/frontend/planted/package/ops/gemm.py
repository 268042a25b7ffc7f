"""A kernel with a planted mistake, in this style: gemm."""

import tilelang
import tilelang.language as T
from .common import *
from ..util import cdiv as ceil_div
from .. import util as U

__all__ = ["matmul"]


@tilelang.jit
def matmul(A, B, cfg=Config()):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, cfg.bn), T.ceildiv(M, cfg.bm), threads=U.THREADS) as (bx, by):
        a = T.alloc_shared((cfg.bm, cfg.bk), T.float16)
        b = T.alloc_shared((cfg.bk, cfg.bn), T.float16)
        c = T.alloc_fragment((cfg.bm, ceil_div(cfg.bn, 2)), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, cfg.bk), num_stages=2):
            load_tile(A, a, by * cfg.bm, k * cfg.bk)
            load_tile(B, b, k * cfg.bk, bx * cfg.bn)
            T.gemm(a, b, c)  # wrong
        T.copy(c, C[by * cfg.bm, bx * cfg.bn])
    return C
