"""A kernel with a planted mistake, in this style: cached factory."""

import functools
import tilelang
import tilelang.language as T


@functools.lru_cache(maxsize=32)
def get_kernel(N: int, dtype: str, block: int = 256):
    n_blocks = (N + block - 1) // block

    @tilelang.jit
    def kern(A):
        M = T.const("M")
        A: T.Tensor((M, N), dtype)
        B = T.empty((M,), "float32")
        with T.Kernel(M, threads=128) as r:
            f = T.alloc_fragment((block,), dtype)
            acc = T.alloc_fragment((block,), "float32")
            out = T.alloc_fragment((2,), "float32")
            T.clear(acc)
            for k in T.serial(n_blocks):
                T.copy(A[r, k * block : (k + 1) * block], f)
                for i in T.Parallel(block):
                    acc[i] += f[i]
            T.reduce_sum(acc, out, dim=0)  # wrong
            B[r] = out[0]
        return B

    return kern


def norm(x):
    return get_kernel(x.shape[-1], "float16")(x)


def test():
    return get_kernel(1024, "bfloat16")
