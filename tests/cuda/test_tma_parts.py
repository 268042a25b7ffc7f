"""T.tma_copy into parts of a swizzled tile whose places are known only at run time."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels import lower_text, random
from tests.emulator.block import run
from tilelang.diagnostics.error import KernelError

HALVES = """
@T.prim_func
def main(
    A: T.Tensor((64, 128), "float16"), W: T.Tensor((128, 64), "float16"), B: T.Tensor((64, 64), "float32")
):
    with T.Kernel(1, threads=128) as bx:
        tile = T.alloc_shared((64, 128), "float16")
        w = T.alloc_shared((128, 64), "float16")
        full = T.alloc_barrier(128)
        acc = T.alloc_fragment((64, 64), "float32")
        T.copy(W, w)
        for part in T.serial(PARTS):
            T.tma_copy(A[WHERE], tile[WHERE], barrier=full)
            T.mbarrier_arrive(full)
            T.mbarrier_wait_parity(full, part % 2)
        T.gemm(tile, w, acc, clear_accum=True)
        T.copy(acc, B)
"""
WHOLE = [
    (2, "0:64, part * 64 : part * 64 + 64"),
    (2, "0:64, (1 - part) * 64 : (1 - part) * 64 + 64"),
    (4, "part * 16 : part * 16 + 16, 0:128"),
    (4, "part // 2 * 32 : part // 2 * 32 + 32, part % 2 * 64 : part % 2 * 64 + 64"),
]
BROKEN = [
    (4, "0:64, part * 32 : part * 32 + 32"),  # half of the swizzle's 128 bytes
    (16, "part * 4 : part * 4 + 4, 0:128"),  # half of its 8 rows
    (2, "0:64, part * part * 32 : part * part * 32 + 64"),
]


def _lowered(parts: int, where: str):
    return lower_text(HALVES.replace("PARTS", str(parts)).replace("WHERE", where), "cuda:sm_90")


@pytest.mark.parametrize(("parts", "where"), WHOLE, ids=[w for _, w in WHOLE])
def test_parts_of_whole_atoms_wherever_they_lie(parts, where, rng):
    kernel = _lowered(parts, where)
    assert kernel.plan.descriptors[0].swizzle == 128
    a, w = random(rng, (64, 128), "float16"), random(rng, (128, 64), "float16")
    b = np.zeros((64, 64), np.float32)
    run(kernel, {"A": a, "W": w, "B": b})
    np.testing.assert_allclose(b, a.astype(np.float32) @ w.astype(np.float32), atol=1e-3)


@pytest.mark.parametrize(("parts", "where"), BROKEN, ids=[w for _, w in BROKEN])
def test_parts_that_break_atoms_are_refused(parts, where):
    with pytest.raises(KernelError, match="does not begin and end at the 128-byte swizzle"):
        _lowered(parts, where)
