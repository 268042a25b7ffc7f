"""A kernel with a planted mistake, in this style: loop of kernels."""

import tilelang
import tilelang.language as T

OPS = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b}
KERNELS = {}

for name, op in OPS.items():

    @tilelang.jit
    def elementwise(A, B, block: int = 128, op=op):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        B: T.Tensor((N,), T.float32)
        C = T.empty((N,), T.float32)
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            f = T.alloc_fragment((block,), T.float32)
            g = T.alloc_fragment((block // 2,), T.float32)
            T.copy(A[bx * block], f)
            T.copy(f, g)  # wrong
            for i in T.Parallel(block):
                C[bx * block + i] = op(f[i], B[bx * block + i])
        return C

    KERNELS[name] = elementwise
