"""Floats made of loop variables, which passes of TVM on the way to LLVM cannot take the range of."""

from __future__ import annotations

import torch

import tilelang
import tilelang.language as T


@tilelang.jit(target="cpu")
def ramp(X, block: int = 16):
    N = T.const("N")
    X: T.Tensor((1,), T.float32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=32) as bx:
        scale = X[0]
        for i in T.Parallel(block):
            step = T.cast(block - 1 - i, T.float32) * scale  # bound once, used twice
            Y[bx * block + i] = T.exp2(step) + step * T.cast(bx, T.float32)
    return Y


def test_a_float_of_a_loop_variable_can_be_bound():
    kernel = ramp.compile(N=37)
    found = kernel(torch.tensor([-0.25]))
    i, block = torch.arange(37) % 16, torch.arange(37) // 16
    step = (15 - i) * -0.25
    torch.testing.assert_close(found, torch.exp2(step) + step * block)
