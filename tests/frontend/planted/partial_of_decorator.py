"""A kernel with a planted mistake, in this style: partial of decorator."""

from functools import partial
import tilelang
from tilelang import language as T

my_jit = partial(tilelang.jit, out_idx=[-1], pass_configs={"tl.disable_tma_lower": True})


@my_jit
def copyk(M, N, bm=64, bn=64):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float16"), B: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(M, bm), T.ceildiv(N, bn), threads=128) as (i, j):
            t = T.alloc_shared((bm, bn), "float16")
            f = T.alloc_fragment((bm, bn * 2), "float16")
            T.copy(A[i * bm, j * bn], t)
            T.copy(t, f)  # wrong
            T.copy(f[:, 0:bn], B[i * bm, j * bn])

    return main


copyk(256, 256)
