"""Prints, assertions, assumptions, windows and workspaces in the emulator."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels import lower_text, random
from tests.emulator.block import run
from tests.emulator.memory import EmulationError, poison

TALK = """
@tilelang.jit
def talk(A, limit):
    A: T.Tensor((4,), "int32")
    with T.Kernel(2, threads=32) as bx:
        tile = T.alloc_shared((4,), "int32")
        part = T.alloc_fragment((2,), "float16")
        T.copy(A, tile)
        T.fill(part, 1.5)
        T.print(tile[1:3], msg="50%")
        T.print(part)
        T.device_assert(tile[0] < limit, "too large")
"""


def test_tiles_are_printed_once_by_each_block() -> None:
    statistics = run(lower_text(TALK, limit=9), {"A": np.array([3, 4, 5, 6], "int32")})
    assert len(statistics.printed) == 2 * (2 + 2)
    assert statistics.printed[0] == (
        "msg='50%' BlockIdx=(0, 0, 0), ThreadIdx=(0, 0, 0): buffer=tile, index=(1), dtype=int32 value=4\n"
    )
    assert statistics.printed[-1].endswith("buffer=part, index=(1), dtype=float16 value=1.500000\n")


def test_assertions_name_place_and_condition() -> None:
    with pytest.raises(
        EmulationError, match=r"kernel\.py:15: assertion failed: too large \(`tile\[0\] < limit`"
    ):
        run(lower_text(TALK, limit=3), {"A": np.array([3, 4, 5, 6], "int32")})


ASSUME = """
@tilelang.jit
def double(A, B):
    N = T.dynamic("N")
    A: T.Tensor((4, N), "float16")
    B: T.Tensor((4, N), "float16")
    with T.Kernel(T.ceildiv(N, 256), 4, threads=32) as (bx, by):
        T.assume(N % 8 == 0)
        for i in T.Parallel(256):
            B[by, bx * 256 + i] = A[by, bx * 256 + i] * 2
"""


@pytest.mark.parametrize("n", [8, 264])
def test_an_assumption_widens_accesses(rng: np.random.Generator, n: int) -> None:
    a, b = random(rng, (4, n), "float16"), poison((4, n), "float16")
    lowered = lower_text(ASSUME)
    run(lowered, {"A": a, "B": b}, {"N": n})
    assert np.array_equal(b, a * 2)
    assert "uint4" in lowered.source.text
    assert "uint4" not in lower_text(ASSUME.replace("T.assume(N % 8 == 0)", "pass")).source.text


INDEX = """
@tilelang.jit
def pick(A, I, B):
    A: T.Tensor((50,), "float32")
    I: T.Tensor((32,), "int32")
    B: T.Tensor((32,), "float32")
    with T.Kernel(1, threads=32):
        for i in T.Parallel(32):
            k = I[i]
            T.assume(k >= 0)
            T.assume(k < 50)
            B[i] = A[k]
"""


def test_an_assumption_about_an_index_takes_its_guard_away(rng: np.random.Generator) -> None:
    a, i = random(rng, (50,), "float32"), rng.integers(0, 50, 32).astype("int32")
    b = poison(32, "float32")
    lowered = lower_text(INDEX)
    run(lowered, {"A": a, "I": i, "B": b})
    assert np.array_equal(b, a[i])
    assert "?" not in lowered.source.text.partition("{")[2]


ELSEWHERE = """
@tilelang.jit
def double(A, B, whole: T.int32):
    N = T.dynamic("N")
    A: T.Tensor((4, N), "float16")
    B: T.Tensor((4, N), "float16")
    with T.Kernel(T.ceildiv(N, 256), 4, threads=32) as (bx, by):
        if whole > 0:
            T.assume(N % 8 == 0)
            for i in T.Parallel(256):
                B[by, bx * 256 + i] = A[by, bx * 256 + i] * 2
        else:
            for i in T.Parallel(256):
                B[by, bx * 256 + i] = A[by, bx * 256 + i] * 2
"""


@pytest.mark.parametrize(("n", "whole"), [(264, 1), (263, 0)])
def test_an_assumption_holds_in_its_branch_alone(rng: np.random.Generator, n: int, whole: int) -> None:
    a, b = random(rng, (4, n), "float16"), poison((4, n), "float16")
    lowered = lower_text(ELSEWHERE)
    run(lowered, {"A": a, "B": b}, {"N": n, "whole": whole})
    assert np.array_equal(b, a * 2)
    then, _, other = lowered.source.text.partition("} else {")
    assert "uint4" in then and "uint4" not in other


BY_SOME_WARPS = """
@tilelang.jit
def double(A, B, n: T.int32):
    A: T.Tensor((64,), "float32")
    B: T.Tensor((64,), "float32")
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        if t < 32:
            T.assume(0 <= n < 64)
            for k in T.serial(t, n, 32):
                T.assume(0 <= k < 64)
                B[k] = A[k] * 2
"""


def test_an_assumption_may_stand_in_the_code_of_some_warps(rng: np.random.Generator) -> None:
    a, b = random(rng, 64, "float32"), poison(64, "float32")
    run(lower_text(BY_SOME_WARPS), {"A": a, "B": b}, {"n": 50})
    assert np.array_equal(b[:50], a[:50] * 2) and np.isnan(b[50:]).all()


WINDOWS = """
@tilelang.jit
def windows(X, Y, stride, dilation, pad):
    N, H, W, C, OH, OW = T.const("N, H, W, C, OH, OW")
    X: T.Tensor((N, H, W, C), "float32")
    Y: T.Tensor((N * OH * OW, 9 * C), "float32")
    Z: T.Tensor((OH, OW), "float32")
    with T.Kernel(T.ceildiv(N * OH * OW, 16), T.ceildiv(9 * C, 16), threads=64) as (bx, by):
        col = T.alloc_shared((16, 16), "float32")
        T.im2col(X, col, bx, by, 3, stride, dilation, pad)
        T.copy(col, Y[bx * 16, by * 16])
"""


@pytest.mark.parametrize(("stride", "dilation", "pad"), [(1, 1, 1), (2, 1, 0), (1, 2, 2)])
def test_windows(rng: np.random.Generator, stride: int, dilation: int, pad: int) -> None:
    n, h, w, c = 2, 7, 6, 3
    oh, ow = ((x + 2 * pad - 2 * dilation - 1) // stride + 1 for x in (h, w))
    x, y = random(rng, (n, h, w, c), "float32"), poison((n * oh * ow, 9 * c), "float32")
    text = WINDOWS.replace('    Z: T.Tensor((OH, OW), "float32")\n', "").replace(
        'N, H, W, C, OH, OW = T.const("N, H, W, C, OH, OW")',
        f'N, H, W, C = T.const("N, H, W, C")\n    OH, OW = {oh}, {ow}',
    )
    run(lower_text(text, N=n, H=h, W=w, C=c, stride=stride, dilation=dilation, pad=pad), {"X": x, "Y": y})
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    want = np.zeros((n, oh, ow, 3, 3, c), "float32")
    for i in range(oh):
        for j in range(ow):
            rows = slice(i * stride, i * stride + 2 * dilation + 1, dilation)
            columns = slice(j * stride, j * stride + 2 * dilation + 1, dilation)
            want[:, i, j] = padded[:, rows, columns]
    assert np.array_equal(y, want.reshape(y.shape))


WORKSPACE = """
@tilelang.jit
def workspace(A, B):
    A: T.Tensor((64,), "float32")
    B: T.Tensor((64,), "float32")
    with T.Kernel(1, threads=64):
        space = T.alloc_global((64,), "float32")
        for i in T.Parallel(64):
            space[63 - i] = A[i]
        for i in T.Parallel(64):
            B[i] = space[i]
"""


def test_a_workspace_is_a_parameter_of_the_device_function(rng: np.random.Generator) -> None:
    a, b, space = random(rng, (64,), "float32"), poison(64, "float32"), poison(64, "float32")
    lowered = lower_text(WORKSPACE)
    assert lowered.plan.hidden == 1
    assert lowered.plan.allocated == (2,)
    run(lowered, {"A": a, "B": b, "space": space})
    assert np.array_equal(b, a[::-1])
