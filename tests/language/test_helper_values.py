"""What helpers hand out for subscripts and arithmetic: vectors of T.Ramp, slices made by `slice`."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T
from tests.cuda.kernels import HEAD
from tests.on_device import DEVICES, compiled_for, random
from tilelang.analysis.check import check_source


def _pair(buffer: Any, at: Any) -> Any:
    return buffer[T.Ramp(at, 1, 2)]


@tilelang.jit
def pairs(A):
    A: T.Tensor((256,), "float16")
    B = T.empty((256,), "float16")
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding()
        own = T.alloc_local((8,), "float16")
        for v in T.vectorized(8):
            own[v] = A[tx * 8 + v]
        factor = T.cast(3, "float16")
        for j in T.unroll(4):
            own[T.Ramp(2 * j, 1, 2)] = T.max2(_pair(own, 2 * j) * T.Broadcast(factor, 2), _pair(own, 0))
        for v in T.vectorized(8):
            B[tx * 8 + v] = own[v]
    return B


@pytest.mark.parametrize("device", DEVICES)
def test_vectors_of_a_helper_in_arithmetic(device: str) -> None:
    a = random(256).half()
    groups = (3 * a).reshape(32, 4, 2)
    first = torch.maximum(groups[:, 0], a.reshape(32, 4, 2)[:, 0])
    want = torch.stack([first, *(torch.maximum(groups[:, j], first) for j in (1, 2, 3))], 1)
    got = compiled_for(pairs, device).compile()(a.to(device))
    assert torch.equal(got.cpu(), want.reshape(-1))


@tilelang.jit
def moved(A):
    A: T.Tensor((64, 16), "float32")
    B = T.empty((64, 16), "float32")
    with T.Kernel(2, threads=32) as bx:
        rows = slice(bx * 32, (bx + 1) * 32)
        tile = T.alloc_shared((32, 16), "float32")
        T.copy(A[rows, :], tile)
        T.copy(tile, B[rows, slice(0, 16)])
    return B


@pytest.mark.parametrize("device", DEVICES)
def test_slices_that_have_a_name(device: str) -> None:
    a = random(64, 16)
    assert torch.equal(compiled_for(moved, device).compile()(a.to(device)).cpu(), a)


STEPPED = """
@T.prim_func
def main(A: T.Tensor((64, 16), "float32")):
    with T.Kernel(2, threads=32) as bx:
        tile = T.alloc_shared((32, 16), "float32")
        T.copy(A[slice(bx * 32, (bx + 1) * 32, 2), :], tile)
"""


def test_a_step_is_refused_in_either_spelling() -> None:
    problems = check_source("k.py", HEAD + STEPPED, "cuda:sm_90").all_problems()
    assert any("a step other than 1" in p.message for p in problems)
