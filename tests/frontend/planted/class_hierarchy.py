"""A kernel with a planted mistake, in this style: class hierarchy."""

import tilelang
import tilelang.language as T
from abc import ABC, abstractmethod


class Base(ABC):
    default_config = {"block_M": 64, "block_N": 64, "threads": 128}
    supported_archs = [80, 89, 90]

    def __init__(self, config=None, tune=False):
        self.init_config(config, tune)

    def init_config(self, config=None, tune=False):
        self.config = {}
        if tune:
            self.autotune()
        else:
            if config is not None:
                for k, v in self.default_config.items():
                    self.config[k] = config[k] if config.get(k) is not None else v
            else:
                self.config = self.default_config

    @abstractmethod
    def forward(self, x): ...


class Softmax(Base):
    def __init__(self, M, N, dtype, config=None, tune=False):
        self.M, self.N, self.dtype = M, N, dtype
        super().__init__(config, tune)
        self.kernel = _softmax_kernel(self.M, self.N, self.dtype)(**self.config)

    def forward(self, x):
        return self.kernel(x)


def _softmax_kernel(M, N, dtype):
    @tilelang.jit(out_idx=[-1])
    def _func(block_M, block_N, threads):
        @T.macro
        def rowmax(f, m):
            T.reduce_max(f, m, dim=0)  # wrong

        @T.prim_func
        def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
            with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
                f = T.alloc_fragment((block_M, block_N * 2), dtype)
                m = T.alloc_fragment((block_M,), dtype)
                T.copy(X[bx * block_M, 0], f)
                rowmax(f, m)
                for i, j in T.Parallel(block_M, block_N):
                    f[i, j] = T.exp(f[i, j] - m[i])
                T.copy(f, Y[bx * block_M, 0])

        return main

    return _func


op = Softmax(512, 128, "float16")
