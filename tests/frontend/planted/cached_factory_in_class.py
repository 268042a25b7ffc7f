"""A kernel with a planted mistake, in this style: cached factory in class."""

import functools
import tilelang
import tilelang.language as T


@functools.cache
def _build(hidden, dtype):
    @tilelang.jit(out_idx=[1])
    def factory():
        m = T.dynamic("m")

        @T.prim_func
        def main(X: T.Tensor((m, hidden), dtype), Y: T.Tensor((m, hidden), dtype)):
            with T.Kernel(m, threads=256) as row:
                x = T.alloc_shared((hidden,), dtype)
                y = T.alloc_shared((hidden // 2,), dtype)
                T.copy(X[row, :], x)
                T.copy(x, y)  # wrong
                T.copy(y, Y[row, 0 : hidden // 2])

        return main

    return factory()


class Norm:
    HIDDEN = 4096

    def __call__(self, x):
        return _build(self.HIDDEN, "bfloat16")(x)


_build(4096, "bfloat16")
