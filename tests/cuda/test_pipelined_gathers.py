"""T.Parallel loops that gather a tile in a pipeline: asynchronous and ahead where a copy would be."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.cuda.kernels import HEAD, lower_example
from tests.emulator.block import run
from tilelang.analysis.check import check_program
from tilelang.arch.cuda import DISABLE_WARP_SPECIALISED
from tilelang.arch.target import parse_target
from tilelang.facts.kernel_facts import KernelFacts
from tilelang.frontend.environments.specialise import trace_static
from tilelang.frontend.environments.static_module import StaticModule
from tilelang.jit.compiling import prim_func_of
from tilelang.targets.driver import lower
from tilelang.targets.lowered import LoweredKernel

TARGETS = pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90"])

# Rows of X by an index from memory, as experts gather their tokens.
ROWS = """
@tilelang.jit
def gemm(X, Rows, B):
    X: T.Tensor((40, 128), T.float16)
    Rows: T.Tensor((64,), T.int32)
    B: T.Tensor((128, 64), T.float16)
    C = T.empty((64, 64), T.float32)
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 32), T.float16)
        b = T.alloc_shared((32, 64), T.float16)
        acc = T.alloc_fragment((64, 64), T.float32)
        T.clear(acc)
        for k in T.Pipelined(4, num_stages=3):
            for i, j in T.Parallel(64, 32):
                row = Rows[i]
                a[i, j] = T.if_then_else(row >= 0, X[row, k * 32 + j], 0)
            T.copy(B[k * 32, 0], b)
            T.gemm(a, b, acc)
        T.copy(acc, C)
    return C
"""

# What keeps a gather in its iteration: (replaced, by).
HINDERED = {
    "fills a part": ("T.Parallel(64, 32):", "T.Parallel(64, 16):"),
    "not neighbours": ("X[row, k * 32 + j]", "X[row, (k * 32 + j) // 2]"),
    "something else than 0 outside": ("k * 32 + j], 0)", "k * 32 + j], 1)"),
    "computes": ("X[row, k * 32 + j], 0)", "X[row, k * 32 + j] * 2, 0)"),
    "steered by a tile of the loop": ("row = Rows[i]", "row = Rows[i] + T.cast(b[0, 0], T.int32)"),
    "read before": ("            for i, j", "            T.gemm(a, b, acc)\n            for i, j"),
}


def both(text: str, target: str) -> tuple[KernelFacts, LoweredKernel]:
    module, chosen = StaticModule("kernel.py", HEAD + text), parse_target(target)
    program = trace_static(module, module.kernels[0])
    facts, _ = check_program(program, chosen, HEAD + text)
    func = prim_func_of(program, chosen, HEAD + text).with_attr(DISABLE_WARP_SPECIALISED, True)
    return facts, lower(func, chosen)


def gathered(lowered: LoweredKernel) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x, b = (rng.integers(-3, 4, s).astype(np.float16) for s in ((40, 128), (128, 64)))
    given = {"X": x, "Rows": rng.integers(-3, 40, 64).astype(np.int32), "B": b}
    given["C"] = np.zeros((64, 64), np.float32)
    run(lowered, given)
    return given


@TARGETS
def test_rows_are_fetched_ahead(target: str) -> None:
    facts, lowered = both(ROWS, target)
    assert re.search(r"cp_async_16_guarded\(&a\[", lowered.source.text)
    assert facts.shared_bytes == lowered.plan.shared_bytes == 3 * (64 * 32 + 32 * 64) * 2
    t = gathered(lowered)
    rows = np.where(t["Rows"][:, None] >= 0, t["X"][np.maximum(t["Rows"], 0)], 0).astype(np.float32)
    assert np.array_equal(t["C"], rows @ t["B"].astype(np.float32))


@pytest.mark.parametrize("case", HINDERED)
def test_other_loops_stay_where_they_are(case: str) -> None:
    text = ROWS.replace(*HINDERED[case])
    assert text != ROWS
    text = text.replace("        T.clear(acc)\n", "        T.clear(acc)\n        T.clear(a)\n")
    facts, lowered = both(text, "cuda:sm_90")
    assert "&a[" not in "".join(re.findall(r"cp_async\w*\(&\w+\[", lowered.source.text))
    assert facts.shared_bytes == lowered.plan.shared_bytes


@TARGETS
@pytest.mark.parametrize("stride", [1, 2])
def test_the_convolution_gathers_ahead(target: str, stride: int) -> None:
    sizes = {"N": 1, "H": 6, "Wd": 7, "C": 40, "KH": 3, "KW": 3, "F": 24}
    tiles = {"block_M": 64, "block_N": 32, "block_K": 32, "stride": stride}
    lowered = lower_example("convolution/conv2d", target, **sizes, **tiles)
    assert "cp_async_16_guarded(&image[" in lowered.source.text
    assert "X_vec" not in lowered.source.text
    rng = np.random.default_rng(1)
    x, w = (rng.integers(-2, 3, s).astype(np.float16) for s in ((1, 6, 7, 40), (3, 3, 40, 24)))
    high, wide = (6 - 1) // stride + 1, (7 - 1) // stride + 1
    y = np.zeros((1, high, wide, 24), np.float16)
    run(lowered, {"X": x, "W": w, "Y": y})
    padded = np.pad(x.astype(np.float32), ((0, 0), (1, 1), (1, 1), (0, 0)))
    wanted = np.zeros(y.shape, np.float32)
    for r in range(3):
        for c in range(3):
            part = padded[:, r : r + 6 : stride, c : c + 7 : stride][:, :high, :wide]
            wanted += part @ w[r, c].astype(np.float32)
    assert np.array_equal(y, wanted.astype(np.float16))


IM2COL = """
@tilelang.jit
def conv(X, W):
    X: T.Tensor((1, 6, 7, 64), T.float16)
    W: T.Tensor((9 * 64, 32), T.float16)
    Y = T.empty((42, 32), T.float32)
    with T.Kernel(1, threads=128):
        image = T.alloc_shared((64, 32), T.float16)
        weights = T.alloc_shared((32, 32), T.float16)
        acc = T.alloc_fragment((64, 32), T.float32)
        T.clear(acc)
        for k in T.Pipelined(18, num_stages=3):
            T.im2col(X, image, 0, k, 3, 1, 1, 1)
            T.copy(W[k * 32, 0], weights)
            T.gemm(image, weights, acc)
        T.copy(acc, Y[0, 0])
    return Y
"""


@TARGETS
def test_windows_are_fetched_ahead(target: str) -> None:
    facts, lowered = both(IM2COL, target)
    assert "cp_async_16_guarded(&image[" in lowered.source.text
    assert facts.shared_bytes == lowered.plan.shared_bytes == 3 * (64 * 32 + 32 * 32) * 2
    rng = np.random.default_rng(2)
    x, w = (rng.integers(-2, 3, s).astype(np.float16) for s in ((1, 6, 7, 64), (576, 32)))
    y = np.zeros((42, 32), np.float32)
    run(lowered, {"X": x, "W": w, "Y": y})
    padded = np.pad(x[0].astype(np.float32), ((1, 1), (1, 1), (0, 0)))
    taps = [padded[r : r + 6, c : c + 7].reshape(42, 64) for r in range(3) for c in range(3)]
    assert np.array_equal(y, np.concatenate(taps, axis=1) @ w.astype(np.float32))
