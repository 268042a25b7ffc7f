"""Conversions of integers that change the number: divided as the number they make."""

from __future__ import annotations

import torch

import tilelang
import tilelang.language as T


@tilelang.jit(target="cpu")
def divided(A, L):
    A: T.Tensor((32,), T.int32)
    L: T.Tensor((32,), T.int64)
    B = T.empty((32,), T.int32)
    C = T.empty((32,), T.int8)
    D = T.empty((32,), T.bool)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(32):
            u = T.cast(A[i], T.uint32)
            B[i] = T.cast(u, T.int32) % 8 + T.cast(u, T.int32) // 3
            C[i] = T.cast(i * 9, T.int8) // 16
            D[i] = T.cast(L[i] & 0xFFFFFFFF, T.int32) < 0
    return B, C, D


def test_what_wraps_below_zero_is_divided_with_a_floor():
    a = torch.arange(-16, 16, dtype=torch.int32)
    b, c, d = divided(a, a.long())
    assert torch.equal(b, a % 8 + a // 3)
    assert torch.equal(c, (torch.arange(32) * 9).to(torch.int8) // 16)
    assert torch.equal(d, a < 0)
