"""A kernel with a planted mistake, in this style: decorator factory."""

import tilelang
import tilelang.language as T

PASS = {tilelang.PassConfigKey.TL_DISABLE_TMA_LOWER: True}


def kernel_jit(**kw):
    def deco(fn):
        return tilelang.jit(out_idx=[-1], pass_configs=PASS, **kw)(fn)

    return deco


@kernel_jit(target="cuda")
def k(N, block=64):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), O: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block), threads=64) as b:
            f = T.alloc_fragment((block,), "float32")
            g = T.alloc_fragment((block * 2,), "float32")
            T.copy(A[b * block], f)
            T.copy(f, g)  # wrong
            T.copy(g[:block], O[b * block])

    return main


k(1024)
