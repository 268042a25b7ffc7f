"""Copies of an element in several threads: what writes a part of a tile writes all of them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels import random, run_text
from tests.emulator.memory import poison

SHIFTED = """
@tilelang.jit
def shifted(X):
    X: T.Tensor((16, 16), T.float32)
    Y = T.empty((16, 16), T.float32)
    with T.Kernel(1, threads=128):
        x = T.alloc_fragment((16, 16), T.float16)
        y = T.alloc_fragment((16, 16), T.float32)
        T.fill(x, -2)
        T.copy(X, y)
        T.copy(x[6:13, 4:13], y[6:13, 6:15])
        T.copy(y, Y)
    return Y
"""


def test_a_part_of_a_fragment_moves_to_another_place_of_another() -> None:
    x, y = random(np.random.default_rng(0), (16, 16), "float32"), poison((16, 16), "float32")
    run_text(SHIFTED, {"X": x, "Y": y})
    want = x.copy()
    want[6:13, 6:15] = -2
    np.testing.assert_array_equal(y, want)


LARGEST = """
@tilelang.jit
def largest(X, Old):
    X: T.Tensor((8, 32), T.float32)
    Old: T.Tensor((8,), T.float32)
    Y = T.empty((8,), T.float32)
    with T.Kernel(1, threads=64):
        x = T.alloc_fragment((8, 32), T.float32)
        y = T.alloc_{scope}((8,), T.float32)
        T.copy(X, x)
        T.copy(Old, y)
        T.reduce_absmax(x, y, dim=1, clear=False)
        T.copy(y, Y)
    return Y
"""


@pytest.mark.parametrize("scope", ["fragment", "shared"])
def test_the_old_value_of_an_absolute_maximum_counts_as_it_is(scope: str) -> None:
    x, old = random(np.random.default_rng(0), (8, 32), "float32"), np.full(8, -9, "float32")
    old[3], y = 99, poison(8, "float32")
    run_text(LARGEST.format(scope=scope), {"X": x, "Old": old, "Y": y})
    np.testing.assert_array_equal(y, np.maximum(old, np.abs(x).max(axis=1)))
