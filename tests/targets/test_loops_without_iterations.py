"""Loops without iterations are gone before anything else looks at them."""

from __future__ import annotations

import pytest
import torch

import tilelang
from tests.cuda.kernels import lower_text
from tests.emulator.block import run
from tests.frontend.programs import live_module

EMPTY = """
@tilelang.jit
def k(A):
    A: T.Tensor((8, 8), T.float32)
    with T.Kernel(1, threads=32):
        f = T.alloc_fragment((4, 8), T.float32)
        tile = T.alloc_shared((4, 8), T.float32)
        T.clear(f)
        {loop}
            T.copy(A[k, 0], tile)
            for i, j in T.Parallel(4, 8):
                f[i, j] = T.min(T.cast(tile[i, j], T.int32) // (k % 3 + 1), 8)
        T.copy(f, A[0, 0])
"""
LOOPS = ["for k in T.Pipelined(2, 0, num_stages=3):", "for k in T.serial(0):", "for k in T.unroll(3, 1):"]


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_from_behind_its_end_does_nothing(loop: str) -> None:
    text = EMPTY.replace("{loop}", loop)
    a = torch.full((8, 8), 5.0)
    given = a.numpy().copy()
    run(lower_text(text, "cuda:sm_90"), {"A": given})
    tilelang.jit(live_module(text)["k"].function, target="cpu")(a)
    for found in (torch.from_numpy(given), a):
        assert (found[:4] == 0).all() and (found[4:] == 5).all()
