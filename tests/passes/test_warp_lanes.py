"""Lanes of shuffles by number, launch by launch."""

from __future__ import annotations

import pytest

from tests.cuda.kernels import lower_text

TWO_LAUNCHES = """
@tilelang.jit
def k(A):
    A: T.Tensor((64,), T.int32)
    B = T.empty((64,), T.int32)
    C = T.empty((64,), T.int32)
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        B[t] = T.shfl_xor(A[t], 1)
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        C[t] = T.shfl_xor(B[t], 2)
    return B, C
"""


@pytest.mark.parametrize("target", ["hip:gfx942", "metal"])
def test_each_launch_has_lanes_of_its_own(target: str) -> None:
    lowered = lower_text(TWO_LAUNCHES, target)
    assert len(lowered.parts) == 2
    assert all("shuffle" in part.source.text for part in lowered.parts)
