"""Atomic updates in the emulator: every dtype and form, aligned or not, and the barriers around them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels import lower_text, random, run_text
from tests.emulator.block import run
from tests.emulator.memory import poison

FOLD = """
@tilelang.jit
def fold(A, C, kind, dtype, order):
    N, K = T.const("N, K")
    A: T.Tensor((N,), dtype)
    C: T.Tensor((K,), dtype)
    with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
        for i in T.Parallel(128):
            if bx * 128 + i < N:
                if kind == "add":
                    T.atomic_add(C[(bx * 128 + i) % K], A[bx * 128 + i], memory_order=order)
                elif kind == "max":
                    T.atomic_max(C[(bx * 128 + i) % K], A[bx * 128 + i], memory_order=order)
                else:
                    T.atomic_min(C[(bx * 128 + i) % K], A[bx * 128 + i], memory_order=order)
"""
ORDERS = ["relaxed", "acquire", "release", "acq_rel", "seq_cst"]


@pytest.mark.parametrize("kind", ["add", "max", "min"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32", "int64"])
def test_elements(rng: np.random.Generator, kind: str, dtype: str) -> None:
    a, c = random(rng, (300,), "int32").astype(random(rng, (1,), dtype).dtype), np.zeros(4)
    c = c.astype(a.dtype)
    run_text(FOLD, {"A": a, "C": c}, N=300, K=4, kind=repr(kind), dtype=repr(dtype), order="None")
    fold = {"add": np.sum, "max": np.max, "min": np.min}[kind]
    want = [fold([0.0, *a[k::4].astype(float)]) for k in range(4)]
    assert c.astype(float).tolist() == want


@pytest.mark.parametrize("order", ORDERS)
def test_orders_name_their_helper(rng: np.random.Generator, order: str) -> None:
    a, c = random(rng, (64,), "float32"), np.zeros(2, "float32")
    statistics = run_text(
        FOLD, {"A": a, "C": c}, N=64, K=2, kind="'max'", dtype="'float32'", order=repr(order)
    )
    assert np.array_equal(c, np.maximum(a.reshape(-1, 2).max(0), 0))
    name = "atomic_max_f32" + ("" if order == "relaxed" else f"_{order}")
    assert statistics.instructions == {name: 1}


TILE = """
@tilelang.jit
def tile(A, C, dtype, out, m, n, column):
    M, N = T.const("M, N")
    A: T.Tensor((m, n), dtype)
    C: T.Tensor((M, N), out)
    with T.Kernel(2, threads=64):
        f = T.alloc_fragment((m, n), dtype)
        T.copy(A, f)
        T.atomic_add(C[0, column], f)
"""


@pytest.mark.parametrize(
    ("target", "out", "column", "name"),
    [
        ("cuda:sm_90", "float32", 8, "atomic_add_f32x4"),
        ("cuda:sm_90", "float32", 2, "atomic_add_f32x2"),
        ("cuda:sm_90", "float32", 1, "atomic_add_f32"),
        ("cuda:sm_80", "float32", 8, "atomic_add_f32"),
        ("cuda:sm_90", "float16", 8, "atomic_add_f16x8"),
        ("cuda:sm_80", "float16", 8, "atomic_add_f16x2"),
        ("cuda:sm_80", "float16", 3, "atomic_add_f16"),
        ("cuda:sm_90", "bfloat16", 4, "atomic_add_bf16x4"),
        ("cuda:sm_90", "float64", 8, "atomic_add_f64"),
    ],
)
def test_tiles_are_as_wide_as_address_and_target_allow(
    rng: np.random.Generator, target: str, out: str, column: int, name: str
) -> None:
    a = random(rng, (16, 32), "int32").astype("float32")
    c = np.zeros((20, 48), random(rng, (1,), out).dtype)
    lowered = lower_text(
        TILE, target, M=20, N=48, dtype="'float32'", out=repr(out), m=16, n=32, column=column
    )
    statistics = run(lowered, {"A": a, "C": c})
    want = np.zeros((20, 48))
    want[:16, column : column + 32] = 2 * a
    assert np.array_equal(c.astype(float), want)
    assert name in statistics.instructions
    bytes_ = {"x4": 16, "x2": 8, "x8": 16}.get(name[-2:], 1) if out != "float16" or "x8" in name else 1
    assert next(p.alignment for p in lowered.plan.params if p.name == "C") >= min(bytes_, 8)


def test_ragged_tiles_leave_nothing_outside(rng: np.random.Generator) -> None:
    a, c = random(rng, (16, 32), "float32"), np.zeros((10, 40), "float32")
    run(
        lower_text(TILE, "cuda:sm_90", M=10, N=40, dtype="'float32'", out="'float32'", m=16, n=32, column=16),
        {"A": a, "C": c},
    )
    want = np.zeros((10, 40), "float32")
    want[:, 16:] = 2 * a[:10, :24]
    assert np.array_equal(c, want)


NEIGHBOURS = """
@tilelang.jit
def neighbours(A, C, lanes, source):
    A: T.Tensor((16, 64), "float16")
    C: T.Tensor((16, 64), "float16")
    with T.Kernel(2, threads=128):
        s = T.alloc_shared((16, 64), "float16")
        f = T.alloc_fragment((16, 64), "float16")
        T.copy(A, s)
        T.copy(s, f)
        for i, j in T.Parallel(16, 64 // lanes):
            if source == "shared" and lanes == 2:
                T.atomic_addx2(C[i, j * 2], s[i, j * 2])
            elif source == "shared":
                T.atomic_addx4(C[i, j * 4], s[i, j * 4])
            elif lanes == 2:
                T.atomic_addx2(C[i, j * 2], f[i, j * 2])
            else:
                T.atomic_addx4(C[i, j * 4], f[i, j * 4])
"""


@pytest.mark.parametrize("source", ["shared", "fragment"])
@pytest.mark.parametrize("lanes", [2, 4])
def test_neighbours(rng: np.random.Generator, lanes: int, source: str) -> None:
    a, c = random(rng, (16, 64), "int32").astype("float16"), np.zeros((16, 64), "float16")
    statistics = run_text(NEIGHBOURS, {"A": a, "C": c}, lanes=lanes, source=repr(source))
    assert np.array_equal(c, 2 * a)
    assert "atomic_add_f16x2" in statistics.instructions


HISTOGRAM = """
@tilelang.jit
def histogram(X, H):
    N = T.const("N")
    X: T.Tensor((N,), "int32")
    H: T.Tensor((16,), "int32")
    with T.Kernel(1, threads=128):
        counts = T.alloc_shared((16,), "int32")
        T.clear(counts)
        for k in T.serial(T.ceildiv(N, 128)):
            for i in T.Parallel(128):
                if k * 128 + i < N:
                    T.atomic_add(counts[X[k * 128 + i]], 1)
        T.copy(counts, H)
"""


def test_barriers_stand_around_atomics_and_not_between_them(rng: np.random.Generator) -> None:
    x, h = rng.integers(0, 16, 1000).astype("int32"), poison(16, "int32")
    statistics = run_text(HISTOGRAM, {"X": x, "H": h}, N=1000)
    assert np.array_equal(h, np.bincount(x, minlength=16))
    assert statistics.barriers == 2, "one after the zeros, one before the copy"


OLD = """
@tilelang.jit
def take(X, Out, Count):
    N = T.const("N")
    X: T.Tensor((N,), "float32")
    Out: T.Tensor((N,), "float32")
    Count: T.Tensor((1,), "int32")
    with T.Kernel(T.ceildiv(N, 64), threads=64) as bx:
        for i in T.Parallel(64):
            if bx * 64 + i < N:
                if X[bx * 64 + i] > 0:
                    place = T.atomic_add(Count[0], 1, return_prev=True)
                    Out[place] = X[bx * 64 + i]
"""


def test_old_values(rng: np.random.Generator) -> None:
    x, out, count = random(rng, (150,), "float32"), np.zeros(150, "float32"), np.zeros(1, "int32")
    run_text(OLD, {"X": x, "Out": out, "Count": count}, N=150)
    assert np.array_equal(out[: count[0]], x[x > 0])


REPLICATED = """
@tilelang.jit
def replicated(A, C):
    A: T.Tensor((8, 32), "float32")
    C: T.Tensor((8,), "float32")
    with T.Kernel(1, threads=128):
        f = T.alloc_fragment((8, 32), "float32")
        r = T.alloc_fragment((8,), "float32")
        T.copy(A, f)
        T.reduce_sum(f, r, dim=1)
        T.atomic_add(C, r)
"""


def test_a_replicated_fragment_adds_once(rng: np.random.Generator) -> None:
    a, c = random(rng, (8, 32), "int32").astype("float32"), np.zeros(8, "float32")
    run_text(REPLICATED, {"A": a, "C": c})
    assert np.array_equal(c, a.sum(1))
