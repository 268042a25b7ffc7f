"""A kernel with a planted mistake, in this style: helpers."""

import tilelang
import tilelang.language as T


def log2(n):
    k = 0
    while n > 1:
        n //= 2
        k += 1
    return k


def sizes():
    yield 2 ** log2(64)
    for k in range(3):
        yield 32 << k


FIRST, *_, LAST = sizes()


@tilelang.jit
def copied(A):
    A: T.Tensor((64,), T.float32)
    with T.Kernel(1, threads=64):
        f = T.alloc_fragment((2 ** log2(70),), T.float32)
        g = T.alloc_fragment((LAST,), T.float32)
        T.copy(A[0:FIRST], f)
        T.copy(f, g)  # wrong
        T.copy(g[0:64], A)
