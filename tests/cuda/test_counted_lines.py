"""Fragments of one dimension that loops over several count through, as `f[i * 8 + j]`."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels import lower_text, random
from tests.emulator.block import run
from tilelang.diagnostics.error import KernelError

KERNEL = """
@T.prim_func
def main(A: T.Tensor((4096,), "float16"), B: T.Tensor((512,), "float16"), Y: T.Tensor((4096,), "float16")):
    with T.Kernel(4, threads=128) as bx:
        a = T.alloc_fragment((1024,), "float16")
        y = T.alloc_fragment((1024,), "float16")
        b = T.alloc_fragment((128,), "float16")
        for i, j in T.Parallel(128, 8):
            a[i * 8 + j] = A[bx * 1024 + i * 8 + j]
        for i in T.Parallel(128):
            b[i] = B[bx * 128 + i]
        for LOOP:
            y[AT] = a[AT] * BESIDE
        for k in T.Parallel(1024):
            Y[bx * 1024 + k] = y[k]
"""
WAYS = [
    ("i, j in T.Parallel(128, 8)", "i * 8 + j", "b[i]"),
    ("i, j in T.Parallel(128, 8)", "j + i * 8", "b[i]"),
    ("i, h, j in T.Parallel(128, 2, 4)", "i * 8 + h * 4 + j", "b[i]"),
    ("k in T.Parallel(1024)", "k", "b[k // 8]"),
]


@pytest.mark.parametrize(("loop", "at", "beside"), WAYS, ids=[w[1] for w in WAYS])
def test_each_thread_holds_a_run_of_the_line(loop, at, beside, rng):
    lowered = lower_text(
        KERNEL.replace("LOOP", loop).replace("AT", at).replace("BESIDE", beside), "cuda:sm_90"
    )
    a, b = random(rng, (4096,), "float16"), random(rng, (512,), "float16")
    y = np.zeros_like(a)
    run(lowered, {"A": a, "B": b, "Y": y})
    np.testing.assert_array_equal(y, a * np.repeat(b, 8))


@pytest.mark.parametrize("at", ["j * 128 + i", "1023 - (i * 8 + j)"])
def test_another_order_is_right_or_refused(at, rng):
    text = KERNEL.replace("LOOP", "i, j in T.Parallel(128, 8)").replace(
        "y[AT] = a[AT] * BESIDE", f"y[{at}] = a[{at}]"
    )
    try:
        lowered = lower_text(text, "cuda:sm_90")
    except KernelError as refused:
        assert {p.rule for p in refused.problems} <= {"fragment-layout", "fragment-cross-thread"}
        return
    a, b = random(rng, (4096,), "float16"), random(rng, (512,), "float16")
    y = np.zeros_like(a)
    run(lowered, {"A": a, "B": b, "Y": y})
    np.testing.assert_array_equal(y, a)
