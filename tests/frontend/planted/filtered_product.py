"""A kernel with a planted mistake, in this style: filtered product."""

from itertools import product
import tilelang
import tilelang.language as T

SPACE = dict(bm=[64, 128], bn=[64, 128, 256], threads=[128, 256])


def valid(cfg):
    if cfg["bm"] == 128 and cfg["bn"] == 256:
        return False
    return cfg["threads"] <= cfg["bm"] * 2


def configs():
    keys = list(SPACE.keys())
    out = []
    for vals in product(*SPACE.values()):
        cfg = dict(zip(keys, vals))
        if not valid(cfg):
            continue
        out.append(cfg)
    return out


@tilelang.autotune(configs=list(filter(valid, configs())))
@tilelang.jit
def t(A, bm: int = 64, bn: int = 64, threads: int = 128):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float16)
    O = T.empty((N, M), T.float16)
    with T.Kernel(T.ceildiv(M, bm), T.ceildiv(N, bn), threads=threads) as (i, j):
        s = T.alloc_shared((bm, bn), T.float16)
        d = T.alloc_shared((bn, bm + 8), T.float16)
        T.copy(A[i * bm, j * bn], s)
        T.transpose(s, d)  # wrong
        T.copy(d[:, :bm], O[j * bn, i * bm])
    return O
