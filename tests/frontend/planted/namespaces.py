"""A kernel with a planted mistake, in this style: namespaces."""

import argparse
import tilelang
import tilelang.language as T
from types import SimpleNamespace

cfg = SimpleNamespace(bm=64, bn=64, bk=32, threads=128)
parser = argparse.ArgumentParser()
parser.add_argument("--k", type=int, default=512)
args, _ = parser.parse_known_args()


@tilelang.jit
def k(A, B):
    M, N = T.const("M, N")
    A: T.Tensor((M, args.k), T.float16)
    B: T.Tensor((N, args.k), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, cfg.bm), T.ceildiv(N, cfg.bn), threads=cfg.threads) as (i, j):
        a = T.alloc_shared((cfg.bm, cfg.bk), T.float16)
        b = T.alloc_shared((cfg.bn, cfg.bk), T.float16)
        c = T.alloc_fragment((cfg.bm, cfg.bn), T.float32)
        T.clear(c)
        for k in T.Pipelined(args.k // cfg.bk, num_stages=2):
            T.copy(A[i * cfg.bm, k * cfg.bk], a)
            T.copy(B[j * cfg.bn, k * cfg.bk], b)
            T.gemm(a, b, c)  # wrong
        T.copy(c, C[i * cfg.bm, j * cfg.bn])
    return C
