"""Loops over a part of a fragment that something else has laid out: they run where its elements are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cuda.kernels import run_text
from tests.emulator.memory import poison
from tilelang.diagnostics.error import KernelError

KERNEL = """
@tilelang.jit
def k(A, B, M):
    A: T.Tensor((64, 64), T.float16)
    B: T.Tensor((64, 64), T.float16)
    M: T.Tensor((64, 64), T.float32)
    C = T.empty((64, 64), T.float32)
    with T.Kernel(1, threads=128) as bx:
        a = T.alloc_shared((64, 64), T.float16)
        b = T.alloc_shared((64, 64), T.float16)
        m = T.alloc_shared((64, 64), T.float32)
        c = T.alloc_fragment((64, 64), T.float32)
        T.copy(A, a)
        T.copy(B, b)
        T.copy(M, m)
        T.gemm(a, b, c, clear_accum=True)
        {body}
        T.copy(c, C)
    return C
"""


def put(to: Any, of: Any) -> Any:
    def change(c: np.ndarray, m: np.ndarray) -> None:
        c[to] = m[of]

    return change


def scale_odd_rows(c: np.ndarray, m: np.ndarray) -> None:
    c[1::2] = c[1::2] * 2 + m[:32]


def raise_under_a_condition(c: np.ndarray, m: np.ndarray) -> None:
    c[3:11, 0] = np.where(m[:8, 2] > 0, m[:8, 2], c[3:11, 0])


# What stands behind the gemm, and what it makes of its result `c` and of the shared tile `m`.
PARTS = {
    "corner": ("T.copy(m[0:2, 0:1], c[0:2, 0:1])", put(np.s_[0:2, 0:1], np.s_[0:2, 0:1])),
    "from elsewhere": ("T.copy(m[5:8, 8:24], c[60:63, 32:48])", put(np.s_[60:63, 32:48], np.s_[5:8, 8:24])),
    "column": ("T.copy(m[:, 3], c[:, 9])", put(np.s_[:, 9:10], np.s_[:, 3:4])),
    "moving": (
        "for r in T.serial(3):\n            T.copy(M[r * 2, 0:8], c[r * 2 + 1, 0:8])",
        put(np.s_[1:6:2, 0:8], np.s_[0:5:2, 0:8]),
    ),
    "every other row": (
        "for i, j in T.Parallel(32, 64):\n            c[i * 2 + 1, j] = c[i * 2 + 1, j] * 2 + m[i, j]",
        scale_odd_rows,
    ),
    "under a condition": (
        "for i in T.Parallel(8):\n            if m[i, 2] > 0:\n                c[i + 3, 0] = m[i, 2]",
        raise_under_a_condition,
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_a_fragment_is_written(name: str, rng: np.random.Generator) -> None:
    body, change = PARTS[name]
    a, b = (rng.normal(size=(64, 64)).astype(np.float16) for _ in range(2))
    m, c = rng.normal(size=(64, 64)).astype(np.float32), poison((64, 64), "float32")
    run_text(KERNEL.format(body=body), {"A": a, "B": b, "M": m, "C": c})
    expected = a.astype(np.float32) @ b.astype(np.float32)
    change(expected, m)
    np.testing.assert_allclose(c, expected, rtol=1e-2, atol=1e-2)


def test_a_part_of_a_fragment_is_read(rng: np.random.Generator) -> None:
    body = "T.copy(c[0:2, 0:1], m[5:7, 9:10])\n        T.copy(m, M)"
    a, b = (rng.normal(size=(64, 64)).astype(np.float16) for _ in range(2))
    m, c = rng.normal(size=(64, 64)).astype(np.float32), poison((64, 64), "float32")
    expected = m.copy()
    run_text(KERNEL.format(body=body), {"A": a, "B": b, "M": m, "C": c})
    expected[5:7, 9:10] = c[0:2, 0:1]
    np.testing.assert_array_equal(m, expected)


def test_a_part_that_another_fragment_is_copied_to_stays_an_error() -> None:
    body = "f = T.alloc_fragment((64, 64), T.float32)\n        T.copy(M, f)\n        {0}"
    with pytest.raises(KernelError, match="threads"):
        run_text(KERNEL.format(body=body.format("T.copy(f[1:3, 0:1], c[0:2, 5:6])")), {})
