"""T.dp4a, and four products written out, are the instruction where addresses allow it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels import lower_text
from tests.emulator.block import run
from tests.emulator.memory import poison

PRODUCTS = """
@tilelang.jit
def products(A, B, C):
    A: T.Tensor((32, 32), T.int8)
    B: T.Tensor((32,), T.int8)
    C: T.Tensor((32,), T.int32)
    with T.Kernel(1, threads=32):
        row = T.get_thread_binding()
        a = T.alloc_local((32,), T.int8)
        b = T.alloc_shared((32,), T.int8)
        total = T.alloc_local((1,), T.int32)
        T.copy(B, b)
        for k in T.serial(32):
            a[k] = A[row, k]
        total[0] = 7
        for k in T.serial(7):
            T.dp4a(a[k * 4 + FIRST], b[k * 4], total[0])
        C[row] = total[0]
"""


@pytest.mark.parametrize(("first", "used"), [(4, True), (2, False)], ids=["whole words", "across words"])
def test_dp4a(rng: np.random.Generator, first: int, used: bool) -> None:
    lowered = lower_text(PRODUCTS.replace("FIRST", str(first)))
    assert ("__dp4a(" in lowered.source.text) == used
    assert ("__align__(16) signed char a[32]" in lowered.source.text) or not used
    a = rng.integers(-128, 128, (32, 32)).astype(np.int8)
    b, c = rng.integers(-128, 128, 32).astype(np.int8), poison(32, "int32")
    run(lowered, {"A": a, "B": b, "C": c})
    assert np.array_equal(c, 7 + a[:, first : first + 28].astype(np.int32) @ b[:28].astype(np.int32))


def test_products_of_unsigned_numbers_are_not_taken_for_signed_ones() -> None:
    assert (
        "__dp4a"
        not in lower_text(
            """
@tilelang.jit
def k(C):
    C: T.Tensor((1,), T.int32)
    with T.Kernel(1, threads=32):
        a = T.alloc_local((4,), T.uint8)
        total = T.alloc_local((1,), T.int32)
        for e in T.serial(4):
            a[e] = T.cast(e + 200, T.uint8)
        total[0] = 0
        x, y, z, w = (T.cast(a[e], T.int32) for e in range(4))
        total[0] = total[0] + x * x + y * y + z * z + w * w
        C[0] = total[0]
"""
        ).source.text
    )
