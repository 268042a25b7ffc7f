"""Blocks that wait for each other by T.sync_grid, without thread code, in grids of a size bound at launch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T
from tests.frontend.programs import live_module


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


FOLDS = {
    "of rows": ("T.reduce_sum(a, r, dim=1)", lambda a: a.sum(1, keepdim=True).expand(-1, 8)),
    "kept": (
        "T.reduce_max(a, r1, dim=1)\n        T.copy(r1[:, 0], r)",
        lambda a: a.amax(1, True).expand(-1, 8),
    ),
    "going on": ("T.reduce_absmax(a, r, dim=1, clear=False)", lambda a: a.abs().amax(1, True).expand(-1, 8)),
    "of views": (
        "T.reduce_sum(T.reshape(a, (4, 2, 4)), h, dim=2)\n        T.reduce_sum(h, r, dim=1)",
        lambda a: a.sum(1, keepdim=True).expand(-1, 8),
    ),
    "running": ("T.cumsum(a, o, dim=1)", lambda a: a.cumsum(1)),
    "in a loop": (
        "for k in T.serial(2):\n            e = T.alloc_fragment((4, 8), T.float32)\n"
        "            T.copy(a, e)\n            T.reduce_sum(e, r, dim=1)",
        lambda a: a.sum(1, keepdim=True).expand(-1, 8),
    ),
}
FOLDING = """
@tilelang.jit
def k(A):
    A: T.Tensor((12, 8), T.float32)
    B = T.empty((12, 8), T.float32)
    with T.Kernel(3, threads=32) as bx:
        a = T.alloc_fragment((4, 8), T.float32)
        o = T.alloc_fragment((4, 8), T.float32)
        r = T.alloc_fragment((4,), T.float32)
        r1 = T.alloc_fragment((4, 1), T.float32)
        h = T.alloc_fragment((4, 2), T.float32)
        T.clear(o)
        T.clear(r)
        T.copy(A[bx * 4, 0], a)
        {fold}
        T.sync_grid()
        for i, j in T.Parallel(4, 8):
            B[bx * 4 + i, j] = o[i, j] + r[i]
    return B
"""


VIEWED = """
@tilelang.jit
def k(A):
    A: T.Tensor((12, 8), T.int8)
    B = T.empty((12, 8), T.float32)
    with T.Kernel(3, threads=32) as bx:
        a = T.alloc_shared((4, 8), T.int8)
        o = T.alloc_fragment((4, 8), T.float32)
        T.copy(A[bx * 4, 0], a)
        T.clear(o)
        T.sync_grid()
        for k in T.serial(3):
            turned = T.reshape(a, (8, 4))
            for i, j in T.Parallel(4, 8):
                o[i, j] += turned[j, i]
        T.copy(o, B[bx * 4, 0])
    return B
"""


def test_a_view_in_a_loop_behind_the_meeting_is_of_the_blocks_own_tile() -> None:
    kernel = tilelang.jit(live_module(VIEWED)["k"].function, target="cpu")
    a = torch.randint(-4, 5, (12, 8), dtype=torch.int8)
    expected = torch.cat([3 * t.reshape(8, 4).T for t in a.split(4)]).float()
    compiled = kernel.compile(a)
    assert torch.equal(compiled(a), expected)
    assert torch.equal(compiled.reference(a), expected)


@pytest.mark.parametrize("name", FOLDS)
def test_what_blocks_fold_before_they_meet_is_their_own(name: str) -> None:
    """One of the operands may outlive the meeting and the other one not."""
    fold, expected = FOLDS[name]
    kernel = tilelang.jit(live_module(FOLDING.format(fold=fold))["k"].function, target="cpu")
    a = torch.randint(-4, 5, (12, 8)).float()
    compiled = kernel.compile(a)
    assert torch.equal(compiled(a), expected(a))
    assert torch.equal(compiled.reference(a), expected(a))
