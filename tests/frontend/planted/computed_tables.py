"""A kernel with a planted mistake, in this style: computed tables."""

import tilelang
import tilelang.language as T
from collections import namedtuple

Stage = namedtuple("Stage", ["m", "n", "k"])
STAGES = [Stage(m=2**i, n=2 ** (i + 1), k=16) for i in range(4, 8)]
BEST = max((s for s in STAGES if s.m <= 64), key=lambda s: s.m * s.n)
TABLE = {"missing": 64}
TABLE["k"] = BEST.k
TABLE.update({"m": BEST.m})
assert TABLE["m"] == 64


def nearest_pow2(x):
    n = 1
    while n < x:
        n *= 2
    return n


@tilelang.jit
def k(A, B):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, BEST.m), T.ceildiv(N, BEST.n), threads=128) as (i, j):
        a = T.alloc_shared((TABLE["m"], TABLE["k"]), T.float16)
        b = T.alloc_shared((nearest_pow2(BEST.n - 5), BEST.k), T.float16)
        c = T.alloc_fragment((BEST.m, TABLE["missing"]), T.float32)
        T.clear(c)
        for k in T.Pipelined(K // BEST.k, num_stages=2):
            T.copy(A[i * BEST.m, k * BEST.k], a)
            T.copy(B[j * BEST.n, k * BEST.k], b)
            T.gemm(a, b, c, transpose_B=True)  # wrong
        T.copy(c, C[i * BEST.m, j * BEST.n])
    return C
