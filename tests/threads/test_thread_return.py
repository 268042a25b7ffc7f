"""T.thread_return: the rest of the kernel is for the threads that stay."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tests.cuda.kernels import lower_text
from tests.emulator.block import run
from tests.on_device import DEVICES, compiled_for
from tilelang import reference
from tilelang.analysis.check import check_source


@tilelang.jit
def some_leave(A, n: int):
    A: T.Tensor((256,), "float32")
    B = T.empty((256,), "float32")
    with T.Kernel(4, threads=64) as bx:
        tx = T.get_thread_binding()
        i = bx * 64 + tx
        B[i] = -1.0
        if bx == 2:
            T.thread_return()
        twice = A[i] * 2
        if i < n:
            B[i] = twice
        else:
            T.thread_return()
        if tx % 2 == 0:
            B[i] = 0.5
            T.thread_return()
        B[i] += 1
    return B


@pytest.mark.parametrize("device", DEVICES)
def test_those_that_stay_do_the_rest(device: str) -> None:
    a = torch.randn(256)
    kernel = compiled_for(some_leave, device).compile(n=200)
    index = torch.arange(256)
    want = torch.where(index % 2 == 0, torch.tensor(0.5), a * 2 + 1)
    want[(index >= 200) | (index // 64 == 2)] = -1
    assert torch.equal(kernel(a.to(device)).cpu(), want)
    assert torch.equal(reference.run(kernel, a), want)


TILES = """
@tilelang.jit
def tiles(A, B):
    A: T.Tensor((256,), "float32")
    B: T.Tensor((256,), "float32")
    with T.Kernel(4, threads=32) as bx:
        if bx > 1:
            T.thread_return()
        s = T.alloc_shared((64,), "float32")
        T.copy(A[bx * 64], s)
        for i in T.Parallel(64):
            B[bx * 64 + i] = s[63 - i]
"""


def test_whole_blocks_leave_before_tile_operations() -> None:
    a, b = np.random.default_rng(0).normal(size=256).astype("float32"), np.zeros(256, "float32")
    run(lower_text(TILES), {"A": a, "B": b})
    np.testing.assert_array_equal(b[:128], a[:128].reshape(2, 64)[:, ::-1].reshape(-1))
    assert not b[128:].any()


def _problems(body: str) -> list[str]:
    head = 'def k(A):\n    A: T.Tensor((100,), "float32")\n    with T.Kernel(1, threads=128):\n'
    lines = "".join(f"        {line}\n" for line in ["tx = T.get_thread_binding()", *body.splitlines()])
    text = f"import tilelang\nimport tilelang.language as T\n\n\n@tilelang.jit\n{head}{lines}"
    return [p.message for p in check_source("k.py", text, "cuda").all_problems()]


def test_what_stays_is_known_to_be_inside() -> None:
    assert _problems("if tx >= 100:\n    T.thread_return()\nA[tx] = 1.0") == []
    assert _problems("A[tx] = 1.0") != []  # what the guard is good for


@pytest.mark.parametrize(
    "body",
    [
        "T.thread_return()",
        "for i in T.serial(4):\n    if tx > i:\n        T.thread_return()",
        "if tx > 3:\n    if tx > 5:\n        T.thread_return()\nA[0] = 1.0",
        "if tx > 3:\n    T.thread_return()\nelse:\n    T.thread_return()",
        "if tx > 3:\n    T.thread_return()\n    A[tx] = 0.0",
    ],
)
def test_elsewhere_it_is_refused(body: str) -> None:
    assert any("directly in the body of the kernel" in m for m in _problems(body))


def test_a_barrier_that_some_do_not_reach_is_reported() -> None:
    assert any(
        "lets only some of them come here" in m
        for m in _problems("if tx > 3:\n    T.thread_return()\nT.sync_threads()")
    )


def test_a_condition_that_nobody_knows_yet_is_no_mistake() -> None:
    text = """import tilelang
import tilelang.language as T


@tilelang.jit
def k(A, mask, has_mask: bool):
    A: T.Tensor((100,), "float32")
    mask: T.Tensor((100,), "bool")
    with T.Kernel(1, threads=128):
        tx = T.get_thread_binding()
        if has_mask and mask[tx]:
            if tx < 100:
                A[tx] = 0.0
            T.thread_return()
        if has_mask:
            if tx >= 100:
                T.thread_return()
        A[tx] = 1.0
"""
    assert [p for p in check_source("k.py", text, "cuda").all_problems() if p.severity.name != "HINT"] == []
