"""Gathers by loaded indices: wide accesses where the elements of one share the index, and only there."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels import lower_text
from tests.emulator.block import run

ROWS = """
@tilelang.jit
def gather(X, Rows, rows: int = 32):
    N = T.const("N")
    X: T.Tensor((N, 64), "float16")
    Rows: T.Tensor((rows,), "int32")
    Out = T.empty((rows, 64), "float16")
    with T.Kernel(1, threads=64):
        tile = T.alloc_shared((rows, 64), "float16")
        for i, j in T.Parallel(rows, 64):
            row = Rows[i]
            tile[i, j] = T.if_then_else(row >= 0, X[row, j], 0)
        T.copy(tile, Out)
    return Out
"""

# The index belongs to the element: neighbours in the tile lie in different rows.
ELEMENTS = """
@tilelang.jit
def gather(X, Rows, rows: int = 32):
    N = T.const("N")
    X: T.Tensor((N, 64), "float16")
    Rows: T.Tensor((64,), "int32")
    Out = T.empty((rows, 64), "float16")
    with T.Kernel(1, threads=64):
        tile = T.alloc_shared((rows, 64), "float16")
        for i, j in T.Parallel(rows, 64):
            row = Rows[j]
            twice = row * 2
            if twice >= 0:
                tile[i, j] = X[row, j]
            if twice < 0:
                tile[i, j] = i
        T.copy(tile, Out)
    return Out
"""


def wanted(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return np.where(rows[:, None] >= 0, x[np.maximum(rows, 0)], 0)


def test_a_row_that_is_gathered_is_read_in_pieces_of_16_bytes(rng: np.random.Generator) -> None:
    lowered = lower_text(ROWS, "cuda:sm_80", N=10)
    assert "*(const uint4*)&X[" in lowered.source.text
    x = rng.normal(size=(10, 64)).astype(np.float16)
    rows, out = rng.integers(-2, 10, 32).astype(np.int32), np.zeros((32, 64), np.float16)
    run(lowered, {"X": x, "Rows": rows, "Out": out})
    assert np.array_equal(out, wanted(x, rows))


@pytest.mark.parametrize("low", [0, -2])
def test_an_index_for_each_element_is_read_for_each_element(rng: np.random.Generator, low: int) -> None:
    lowered = lower_text(ELEMENTS, "cuda:sm_80", N=10)
    assert "*(const uint4*)&X[" not in lowered.source.text
    x = rng.normal(size=(10, 64)).astype(np.float16)
    rows, out = rng.integers(low, 10, 64).astype(np.int32), np.zeros((32, 64), np.float16)
    run(lowered, {"X": x, "Rows": rows, "Out": out})
    for j, row in enumerate(rows):
        assert np.array_equal(out[:, j], np.full(32, x[row, j]) if row >= 0 else np.arange(32))
