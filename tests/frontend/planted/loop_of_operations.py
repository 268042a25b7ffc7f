"""A kernel with a planted mistake, in this style: loop of operations."""

import tilelang
import tilelang.language as T


def make(op, M, N, bm=64, bn=64):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), O: T.Tensor((M,), "float32")):
        with T.Kernel(T.ceildiv(M, bm), threads=128) as bx:
            t = T.alloc_shared((bm, bn), "float32")
            f = T.alloc_fragment((bm, bn), "float32")
            r = T.alloc_fragment((bn // 2,), "float32")
            T.fill(r, 0)
            for k in T.serial(T.ceildiv(N, bn)):
                T.copy(A[bx * bm, k * bn], t)
                T.copy(t, f)
                op(f, r, dim=1, clear=False)  # wrong
            T.copy(r, O[bx * bm])

    return main


REDUCERS = {}
for op in (T.reduce_sum, T.reduce_max, T.reduce_min):
    REDUCERS[op.__name__] = tilelang.compile(make(op, 1024, 1024))
