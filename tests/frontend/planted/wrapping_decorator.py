"""A kernel with a planted mistake, in this style: wrapping decorator."""

import functools
import tilelang
import tilelang.language as T


def cached_kernel(fn):
    jitted = tilelang.jit(fn)

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return jitted(*args, **kwargs)

    return wrapper


@cached_kernel
def k(A):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    O = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 64), threads=64) as b:
        f = T.alloc_fragment((64,), T.float32)
        g = T.alloc_fragment((128,), T.float32)
        T.copy(A[b * 64], f)
        T.copy(f, g)  # wrong
        T.copy(g[:64], O[b * 64])
    return O
