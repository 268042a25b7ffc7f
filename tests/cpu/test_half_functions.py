"""Functions of float16 that the C library has for wider floats only."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T

ONE = ["asin", "acos", "atan", "sinh", "cosh", "asinh", "erf", "log1p"]
TWO = ["copysign", "atan2", "hypot"]


@tilelang.jit
def applied(A, B, name: str):
    N = T.const("N")
    A: T.Tensor((N,), T.float16)
    B: T.Tensor((N,), T.float16)
    R = T.empty((N,), T.float16)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(N):
            if name in TWO:
                R[i] = getattr(T, name)(A[i], B[i])
            else:
                R[i] = getattr(T, name)(A[i])
    return R


@pytest.mark.parametrize("name", ONE + TWO)
def test_the_result_is_the_nearest_float16(name: str) -> None:
    a = torch.linspace(-0.97, 0.97, 77).half()
    b = a.flip(0) * 0.5
    found = applied(a, b, name)
    inputs = (a.double(), b.double()) if name in TWO else (a.double(),)
    torch.testing.assert_close(found, getattr(torch, name)(*inputs).half(), rtol=1e-3, atol=0)
