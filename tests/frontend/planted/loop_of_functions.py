"""A kernel with a planted mistake, in this style: loop of functions."""

import tilelang
import tilelang.language as T
from functools import partial

_UNARY = [("relu", lambda x: T.max(x, 0)), ("neg", lambda x: -x), ("sq", lambda x: x * x)]


def _unary_kernel(fn, N, dtype="float32", block=256):
    @T.prim_func
    def k(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            for i in T.Parallel(block):
                B[bx * block + i, 0] = fn(A[bx * block + i])  # wrong

    return k


for _name, _fn in _UNARY:
    globals()[f"{_name}_kernel"] = tilelang.jit(partial(_unary_kernel, _fn), out_idx=[-1])
