"""Tensors without elements in kernels that copy by TMA: the same as in kernels that do not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tests.cuda.kernels import lower_text
from tests.emulator.block import run
from tests.emulator.memory import poison
from tests.on_device import DEVICES, compiled_for
from tilelang.runtime.tensor_maps import has_no_elements

GPU_ONLY = [d for d in DEVICES if d.id == "gpu"]


@pytest.mark.parametrize(
    ("shape", "empty"), [((64, 32), False), ((1, 1), False), ((0, 32), True), ((64, 0), True), ((0,), True)]
)
def test_which_tensors_the_driver_cannot_describe(shape: tuple[int, ...], empty: bool) -> None:
    assert has_no_elements(shape) is empty


@tilelang.jit
def sums(A):
    """The sum of each column of A, whose rows are loaded by TMA, 16 at a time."""
    M = T.dynamic("M")
    A: T.Tensor((M, 64), T.float32)
    B = T.empty((64,), T.float32)
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((16, 64), T.float32)
        total = T.alloc_fragment((64,), T.float32)
        loaded = T.alloc_barrier(1)
        T.clear(total)
        for k in T.serial(T.ceildiv(M, 16) + 1):
            if T.get_thread_binding(0) == 0:
                T.tma_copy(A[k * 16, 0], tile, barrier=loaded)
                T.mbarrier_arrive(loaded)
            T.mbarrier_wait_parity(loaded, k % 2)
            T.reduce_sum(tile, total, dim=0, clear=False)
            T.sync_threads()
        T.copy(total, B)
    return B


def test_such_a_kernel_has_descriptors() -> None:
    text = "import tilelang\nimport tilelang.language as T\n" + _text()
    assert [m.tensor for m in lower_text(text, "cuda:sm_90").plan.descriptors] == ["A"]


def _text() -> str:
    import inspect

    return inspect.getsource(sums.function)


@pytest.mark.parametrize("device", GPU_ONLY)
@pytest.mark.parametrize("rows", [0, 1, 16, 40])
def test_loads_from_an_empty_tensor_give_zeros(device: str, rows: int) -> None:
    """One tile more than there are is loaded, so that even without rows there is a copy."""
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("TMA needs sm_90")
    a = torch.ones(rows, 64, device=device)
    assert torch.equal(compiled_for(sums, device)(a).cpu(), torch.full((64,), float(rows)))


@pytest.mark.parametrize("rows", [1, 40])
def test_the_kernel_is_right_where_there_are_rows(rows: int) -> None:
    text = "import tilelang\nimport tilelang.language as T\n" + _text()
    a, b = np.ones((rows, 64), np.float32), poison(64, "float32")
    run(lower_text(text, "cuda:sm_90"), {"A": a, "B": b}, {"M": rows})
    np.testing.assert_array_equal(b, np.full(64, rows))
