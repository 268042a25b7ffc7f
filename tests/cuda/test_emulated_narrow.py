"""8-bit floats on CUDA: lowered, run thread by thread, and compiled for every generation."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.cuda.kernels import lower_text
from tests.emit.host_run import needs_clang
from tests.emulator.block import run
from tests.emulator.memory import poison
from tilelang.arch.float_formats import FORMATS
from tilelang.targets.driver import build

EIGHT_BITS = [f.name for f in FORMATS.values() if f.bits == 8]

CAST = """
@tilelang.jit
def cast(A, B):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    B: T.Tensor((N,), "{dtype}")
    C = T.empty((N,), "{dtype}")
    D = T.empty((N,), "float16")
    with T.Kernel(T.ceildiv(N, 512), threads=64) as bx:
        tile = T.alloc_shared((512,), "{dtype}")
        T.copy(A[bx * 512], tile)
        T.copy(tile, C[bx * 512])
        for i in T.Parallel(512):
            D[bx * 512 + i] = B[bx * 512 + i] * 2 + T.{dtype}(0.75)
    return C, D
"""


@pytest.mark.parametrize("dtype", EIGHT_BITS)
def test_casts_and_arithmetic(dtype: str, rng: np.random.Generator) -> None:
    kind, f = getattr(ml_dtypes, dtype), FORMATS[dtype]
    a = (rng.normal(size=1024) * np.exp2(rng.uniform(-8, 8, 1024))).astype(np.float32)
    b = rng.normal(size=1024).astype(np.float32)
    if not f.sign:
        a, b = np.exp2(np.round(np.log2(np.abs(a)))).astype(np.float32), np.abs(b)
    b = b.astype(kind)
    tensors = {"A": a, "B": b, "C": poison(1024, dtype), "D": poison(1024, "float16")}
    run(lower_text(CAST.format(dtype=dtype), N=1024), tensors)
    expected = np.clip(a, -f.largest, f.largest).astype(kind)
    np.testing.assert_array_equal(tensors["C"].view(np.uint8), expected.view(np.uint8))
    doubled = (b.astype(np.float32) * 2).clip(-f.largest, f.largest).astype(kind).astype(np.float32)
    added = (doubled + np.float32(f.nearest(0.75))).clip(-f.largest, f.largest).astype(kind)
    np.testing.assert_array_equal(tensors["D"], added.astype(np.float16))


@pytest.mark.parametrize(
    "target",
    [
        *("cuda:sm_80", "cuda:sm_89", "cuda:sm_90"),
        *(pytest.param(f"hip:{arch}", marks=needs_clang) for arch in ("gfx90a", "gfx942")),
    ],
)
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e8m0fnu"])
def test_compiled_for_every_generation(dtype: str, target: str) -> None:
    assert build(lower_text(CAST.format(dtype=dtype), target, N=1024)).binary
