"""The reference takes None for a tensor that the program does not touch, as a launch does."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T


@tilelang.jit(target="cpu")
def scaled(with_bias: bool):
    n, stride = T.dynamic("n"), T.dynamic("stride")

    @T.prim_func
    def main(
        A: T.Tensor((n,), "float32"),
        bias: T.StridedTensor((n, 4), (stride, 1), "float32"),
        B: T.Tensor((n,), "float32"),
    ):
        with T.Kernel(T.ceildiv(n, 32), threads=32) as bx:
            for i in T.Parallel(32):
                if bx * 32 + i < n:
                    B[bx * 32 + i] = 2 * A[bx * 32 + i] + (bias[bx * 32 + i, 0] if with_bias else 0)

    return main


def test_an_absent_tensor_is_not_needed() -> None:
    a, b, again = torch.randn(40), torch.zeros(40), torch.zeros(40)
    scaled(False).reference(a, None, b)
    scaled(False)(a, None, again)
    assert torch.equal(b, 2 * a) and torch.equal(again, b)


def test_a_tensor_that_is_read_must_be_there() -> None:
    with pytest.raises(TypeError, match="bias is None, but main uses it"):
        scaled(True).reference(torch.randn(40), None, torch.zeros(40))
