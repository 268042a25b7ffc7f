"""Lanes of shuffles by number, launch by launch; reductions of warps that a block does not fill."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels import lower_text
from tests.emulator.block import run
from tests.emulator.memory import EmulationError, poison
from tilelang.passes import warp_lanes
from tilelang.passes.walk import index
from tilelang.targets import driver
from tilelang.targets.lowered import LoweredKernel

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


SUM = """
@tilelang.jit
def k(A):
    A: T.Tensor((THREADS,), T.float32)
    B = T.empty((THREADS,), T.float32)
    with T.Kernel(1, threads=THREADS):
        t = T.get_thread_binding()
        B[t] = T.warp_reduce_sum(A[t])
    return B
"""


def sum_of(threads: int, target: str) -> LoweredKernel:
    return lower_text(SUM.replace("THREADS", str(threads)), target)


@pytest.mark.parametrize(("threads", "target", "text"), [
    (64, "cuda:sm_80", "warp_reduce_sum(A[tx])"),
    (48, "cuda:sm_80", "part_warp_reduce_sum(A[tx], tx % 32, tx < 32 ? 32 : 16)"),
    (16, "cuda:sm_80", "part_warp_reduce_sum(A[tx], tx, 16)"),
    (128, "hip:gfx942", "warp_reduce_sum(A[tx])"),
    (32, "hip:gfx942", "part_warp_reduce_sum(A[tx], tx, 32)"),
    (48, "metal", "simd_sum(A[tx])"),  # counts the lanes that there are by itself
])  # fmt: skip
def test_a_reduction_reads_lanes_that_there_are(threads: int, target: str, text: str) -> None:
    assert f" = {text};" in sum_of(threads, target).source.text


def test_the_emulator_sees_a_reduction_over_lanes_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.ones(48, np.float32)
    run(sum_of(48, "cuda:sm_80"), {"A": a, "B": (found := poison((48,), "float32"))})
    assert found.tolist() == [32.0] * 32 + [16.0] * 16
    monkeypatch.setattr(driver, "_REDUCES_WHOLE_WARPS", frozenset())
    with pytest.raises(EmulationError, match="warp_reduce_sum where only some threads pass"):
        run(sum_of(48, "cuda:sm_80"), {"A": a, "B": found})
    monkeypatch.undo()
    monkeypatch.setattr(warp_lanes, "_lanes_there", lambda thread, threads, size: index(size))
    with pytest.raises(EmulationError, match="counts lanes that are not there"):
        run(sum_of(48, "cuda:sm_80"), {"A": a, "B": found})
