"""A kernel with a planted mistake, in this style: relu."""

import tilelang
import tilelang.language as T
from mylib.config import DEFAULTS
from mylib import DEFAULTS as D2

BLOCK = DEFAULTS["block"]


@tilelang.jit
def relu(A):
    N = T.const("N")
    A: T.Tensor((N,), DEFAULTS["dtype"])
    O = T.empty((N,), D2["dtype"])
    with T.Kernel(T.ceildiv(N, BLOCK), threads=128) as bx:
        f = T.alloc_fragment((BLOCK,), DEFAULTS["dtype"])
        T.copy(A[bx * BLOCK], f)
        for i in T.Parallel(BLOCK):
            O[bx * BLOCK + i] = T.max(f[i + BLOCK], 0)  # wrong
    return O
