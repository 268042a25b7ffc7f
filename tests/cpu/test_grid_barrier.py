"""Blocks that wait for each other by T.sync_grid, without thread code, in grids of a size bound at launch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T


def turned(dtype: str) -> Any:
    n = T.dynamic("n", dtype)

    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 16), threads=32) as bx:
            f = T.alloc_fragment((16,), "float32")
            for i in T.Parallel(16):
                if bx * 16 + i < n:
                    B[bx * 16 + i] = A[bx * 16 + i] * 2
            T.sync_grid()
            for i in T.Parallel(16):
                f[i] = T.if_then_else(bx * 16 + i < n, B[n - 1 - (bx * 16 + i)], 0)
            T.sync_grid()
            for i in T.Parallel(16):
                if bx * 16 + i < n:
                    B[bx * 16 + i] = f[i]

    return kernel


def shifted(dtype: str) -> Any:
    """A row goes on by one place in each of `m` steps; blocks along two axes."""
    m, n = T.dynamic("m", dtype), T.dynamic("n", dtype)

    @T.prim_func
    def kernel(A: T.Tensor((m, n), "float32"), B: T.Tensor((m, n), "float32")):
        with T.Kernel(T.ceildiv(n, 8), m, threads=32) as (bx, by):
            s = T.alloc_shared((8,), "float32")
            T.copy(A[by, bx * 8], B[by, bx * 8 : bx * 8 + 8])
            for _ in T.serial(m):
                T.sync_grid()
                for i in T.Parallel(8):
                    s[i] = B[by, (bx * 8 + i + 1) % n]
                T.sync_grid()
                T.copy(s, B[by, bx * 8])

    return kernel


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_blocks_meet_in_a_grid_of_any_size(dtype: str) -> None:
    a = torch.randn(37)
    m = torch.randn(3, 19)
    for make, given, want in ((turned, a, a.flip(0) * 2), (shifted, m, m.roll(-3, 1))):
        compiled = tilelang.compile(make(dtype), target="cpu")
        for way in (compiled, compiled.reference):
            out = torch.zeros_like(given)
            way(given, out)
            assert torch.equal(out, want)
