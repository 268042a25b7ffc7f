"""A kernel with a planted mistake, in this style: class with config."""

from dataclasses import dataclass, field
import tilelang
import tilelang.language as T


@dataclass
class Cfg:
    block_M: int = 128
    block_N: int = 128
    block_K: int = 32
    stages: int = 2
    threads: int = 128
    extra: dict = field(default_factory=dict)

    @property
    def a_shape(self):
        return (self.block_M, self.block_K)

    @property
    def b_shape(self):
        return (self.block_K, self.block_N)


class Gemm:
    def __init__(self, M, N, K, cfg=None, dtype="float16"):
        self.M, self.N, self.K = M, N, K
        self.cfg = cfg or Cfg()
        self.dtype = dtype
        self.kernel = self._make()

    def _make(self):
        M, N, K, c = self.M, self.N, self.K, self.cfg

        @tilelang.jit(out_idx=[-1])
        def build():
            @T.prim_func
            def main(
                A: T.Tensor((M, K), self.dtype),
                B: T.Tensor((K, N), self.dtype),
                C: T.Tensor((M, N), self.dtype),
            ):
                with T.Kernel(T.ceildiv(N, c.block_N), T.ceildiv(M, c.block_M), threads=c.threads) as (
                    bx,
                    by,
                ):
                    a = T.alloc_shared(c.a_shape, self.dtype)
                    b = T.alloc_shared(c.b_shape, self.dtype)
                    acc = T.alloc_fragment((c.block_M, c.block_N // 2), "float32")
                    T.clear(acc)
                    for k in T.Pipelined(T.ceildiv(K, c.block_K), num_stages=c.stages):
                        T.copy(A[by * c.block_M, k * c.block_K], a)
                        T.copy(B[k * c.block_K, bx * c.block_N], b)
                        T.gemm(a, b, acc)  # wrong
                    T.copy(acc, C[by * c.block_M, bx * c.block_N])

            return main

        return build()

    def __call__(self, a, b):
        return self.kernel(a, b)


if __name__ == "__main__":
    g = Gemm(1024, 1024, 1024)
