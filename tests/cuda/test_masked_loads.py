"""Loads inside of `T.if_then_else(condition, ..., other)` are wide where all lanes have one condition."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels import lower_text, random
from tests.emulator.block import run
from tests.emulator.memory import poison

MASKED = """
@tilelang.jit
def masked(X, W, Y):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    W: T.Tensor((M,), T.float32)
    Y: T.Tensor((64, 128), T.float32)
    with T.Kernel(1, threads=128):
        for i, j in T.Parallel(64, 128):
            Y[i, j] = T.if_then_else(CONDITION, X[i, j] * W[i] + 1.0, -1.0)
"""


@pytest.mark.parametrize(
    ("condition", "n", "wide"),
    [("i < M", 128, True), ("(i < M) & (j < N)", 96, True), ("(i < M) & (j <= i)", 128, False)],
    ids=["rows", "whole groups of columns", "a triangle"],
)
def test_masked_sums_of_products(rng: np.random.Generator, condition: str, n: int, wide: bool) -> None:
    lowered = lower_text(MASKED.replace("CONDITION", condition), M=40, N=n)
    assert ("*(uint4*)&X_vec[0] = *(const uint4*)&X[" in lowered.source.text) == wide
    x, w = random(rng, (40, n), "float16"), random(rng, (40,), "float32")
    y = poison((64, 128), "float32")
    run(lowered, {"X": x, "W": w, "Y": y})
    i, j = np.indices((64, 128))
    holds = eval(condition.replace("M", "40").replace("N", str(n)), {"i": i, "j": j})
    full = np.full((64, 128), -1, np.float32)
    full[:40, :n] = x.astype(np.float32) * w[:, None] + 1
    np.testing.assert_allclose(y, np.where(holds, full, -1), rtol=1e-3, atol=1e-3)
