"""Unsigned integers wrap, as hashes and random numbers need it; whatever LLVM is told about other sums."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tests.on_device import DEVICES, compiled_for

SEEN = [1, 3, 2**31 + 1, 2**32 - 1, 123456789]


@tilelang.jit
def hashes(A, B):
    n = T.const("n")
    A: T.Tensor((n,), T.uint32)
    B: T.Tensor((n,), T.uint64)
    narrow = T.empty((4, n), T.uint32)
    wide = T.empty((3, n), T.uint64)
    with T.Kernel(T.ceildiv(n, 64), threads=64) as bx:
        for i in T.Parallel(64):
            a, b = A[bx * 64 + i], B[bx * 64 + i]
            narrow[0, bx * 64 + i] = a * 4 // 4
            narrow[1, bx * 64 + i] = (a * 10 + 3) % 10
            narrow[2, bx * 64 + i] = (a - 5) * 1664525 + 1013904223
            narrow[3, bx * 64 + i] = T.if_then_else(a - 5 < a, 1, 0)
            wide[0, bx * 64 + i] = b * 4 // 4
            wide[1, bx * 64 + i] = b * T.uint64(0x9E3779B97F4A7C15) + T.uint64(0xBF58476D1CE4E5B9)
            wide[2, bx * 64 + i] = b - T.uint64(5)
    return narrow, wide


@tilelang.jit
def slots(A, table):
    n = T.const("n")
    A: T.Tensor((n,), T.uint32)
    table: T.Tensor((10,), T.int32)
    found = T.empty((n,), T.int32)
    with T.Kernel(1, threads=64):
        for i in T.Parallel(n):
            found[i] = table[(A[i] * 10 + 3) % 10]
    return found


@pytest.mark.parametrize("effort", ["-O0", "-O3"])
@pytest.mark.parametrize("device", DEVICES)
def test_values_wrap(device: str, effort: str):
    a = np.array(SEEN * 20, np.uint32)
    b = a.astype(np.uint64) * np.uint64(0x123456789)
    narrow, wide = compiled_for(hashes, device, effort)(*(torch.from_numpy(x).to(device) for x in (a, b)))
    u, v = np.uint32, np.uint64
    np.testing.assert_array_equal(
        narrow.cpu().numpy(),
        [a * u(4) // u(4), (a * u(10) + u(3)) % u(10), (a - u(5)) * u(1664525) + u(1013904223), a - u(5) < a],
    )
    step, start = v(0x9E3779B97F4A7C15), v(0xBF58476D1CE4E5B9)
    np.testing.assert_array_equal(wide.cpu().numpy(), [b * v(4) // v(4), b * step + start, b - v(5)])


@pytest.mark.parametrize("device", DEVICES)
def test_an_index_wraps(device: str):
    """No simplification takes `x * 10 % 10` for 0."""
    a = np.array(SEEN, np.uint32)
    table = torch.arange(10, dtype=torch.int32)
    found = compiled_for(slots, device)(torch.from_numpy(a).to(device), table.to(device))
    np.testing.assert_array_equal(found.cpu().numpy(), (a * np.uint32(10) + np.uint32(3)) % np.uint32(10))
