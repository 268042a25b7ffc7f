"""Two shapes of one memory: barriers, bytes and layouts count a view as the tile it is a view of."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels import random, run_text
from tests.cuda.test_emulated import close
from tests.emulator.memory import poison


def test_a_barrier_stands_between_a_write_and_a_read_through_a_view(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def turned(A):
    A: T.Tensor((64, 64), "float32")
    B = T.empty((64, 64), "float32")
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((64, 64), "float32")
        wide = T.reshape(tile, (32, 128))
        other = T.alloc_shared((64, 64), "float32")
        part = T.alloc_fragment((64, 64), "float32")
        T.copy(A, tile)
        for i, j in T.Parallel(64, 64):
            part[i, j] = wide[j // 2, (j % 2) * 64 + i]
        T.copy(part, other)
        for i, j in T.Parallel(64, 64):
            B[i, j] = other[j, i] + wide[j // 2, (j % 2) * 64 + i]
    return B
"""
    a, b = random(rng, (64, 64), "float32"), poison((64, 64), "float32")
    run_text(text, {"A": a, "B": b})
    assert np.array_equal(b, a + a.T)


def test_a_gemm_reads_a_view(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def product(A, B):
    A: T.Tensor((2048,), "float16")
    B: T.Tensor((32, 64), "float16")
    C = T.empty((64, 64), "float32")
    with T.Kernel(1, threads=128):
        flat = T.alloc_shared((2048,), "float16")
        a = T.reshape(flat, (64, 32))
        b = T.alloc_shared((32, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        T.clear(c)
        T.copy(A, flat)
        T.copy(B, b)
        T.gemm(a, b, c)
        T.copy(c, C)
    return C
"""
    a, b = random(rng, (2048,), "float16"), random(rng, (32, 64), "float16")
    c = poison((64, 64), "float32")
    run_text(text, {"A": a, "B": b, "C": c})
    close(c, a.reshape(64, 32).astype(np.float32) @ b.astype(np.float32), 1e-4)


def test_the_base_of_a_view_is_not_swizzled(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def product(A, B):
    A: T.Tensor((2048,), "float16")
    B: T.Tensor((32, 64), "float16")
    C = T.empty((64, 64), "float32")
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 32), "float16")
        flat = T.reshape(a, (2048,))
        b = T.alloc_shared((32, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        T.clear(c)
        T.copy(A, flat)
        T.copy(B, b)
        T.gemm(a, b, c)
        T.copy(c, C)
    return C
"""
    a, b = random(rng, (2048,), "float16"), random(rng, (32, 64), "float16")
    c = poison((64, 64), "float32")
    run_text(text, {"A": a, "B": b, "C": c})
    close(c, a.reshape(64, 32).astype(np.float32) @ b.astype(np.float32), 1e-4)


def test_a_fragment_is_viewed_in_another_shape(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def flat(A):
    A: T.Tensor((64, 64), "float32")
    B = T.empty((4096,), "float32")
    R = T.empty((64,), "float32")
    with T.Kernel(1, threads=128):
        part = T.alloc_fragment((64, 64), "float32")
        line = T.reshape(part, (4096,))
        cube = T.reshape(part, (4, 16, 64))
        rows = T.alloc_fragment((64,), "float32")
        T.copy(A, part)
        for i, j, k in T.Parallel(4, 16, 64):
            cube[i, j, k] = cube[i, j, k] * 2 + i
        T.reduce_sum(part, rows, dim=1)
        for i in T.Parallel(4096):
            B[i] = line[i]
        T.copy(rows, R)
    return B, R
"""
    a = random(rng, (64, 64), "int32").astype("float32")
    b, r = poison((4096,), "float32"), poison((64,), "float32")
    run_text(text, {"A": a, "B": b, "R": r})
    want = (a.reshape(4, 16, 64) * 2 + np.arange(4).reshape(4, 1, 1)).reshape(64, 64)
    assert np.array_equal(b.reshape(64, 64), want)
    assert np.array_equal(r, want.sum(1))


def test_an_accumulator_is_viewed_in_another_shape(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def halves(A, B):
    A: T.Tensor((64, 32), "float16")
    B: T.Tensor((32, 64), "float16")
    C = T.empty((64, 2, 32), "float32")
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 32), "float16")
        b = T.alloc_shared((32, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        T.copy(A, a)
        T.copy(B, b)
        T.gemm(a, b, c, clear_accum=True)
        d = T.reshape(c, (64, 2, 32))
        for i, j, k in T.Parallel(64, 2, 32):
            d[i, j, k] = d[i, j, k] + 100 * j
        T.copy(d, C)
    return C
"""
    a, b = random(rng, (64, 32), "float16"), random(rng, (32, 64), "float16")
    c = poison((64, 2, 32), "float32")
    run_text(text, {"A": a, "B": b, "C": c})
    want = (a.astype(np.float32) @ b.astype(np.float32)).reshape(64, 2, 32)
    want[:, 1] += 100
    np.testing.assert_allclose(c, want, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize(("dtype", "per"), [("float16", 2), ("uint8", 4), ("int32", 1)])
def test_a_fragment_is_viewed_in_another_dtype(rng: np.random.Generator, dtype: str, per: int) -> None:
    text = """
@tilelang.jit
def bits(A, B, C, dtype, per):
    A: T.Tensor((32, 64), "float32")
    B: T.Tensor((32, 64 * per), dtype)
    C: T.Tensor((32, 64), "float32")
    with T.Kernel(1, threads=128):
        f = T.alloc_fragment((32, 64), "float32")
        T.copy(A, f)
        narrow = T.view(f, (32, 64 * per), dtype)
        T.copy(narrow, B)
        wide = T.view(narrow, (32, 64), "float32")
        T.copy(wide, C)
"""
    a = random(rng, (32, 64), "float32")
    b, c = poison((32, 64 * per), dtype), poison((32, 64), "float32")
    run_text(text, {"A": a, "B": b, "C": c}, dtype=repr(dtype), per=per)
    assert np.array_equal(b.view(np.uint8), a.view(np.uint8).reshape(b.view(np.uint8).shape))
    assert np.array_equal(c, a)


def test_a_view_has_the_strides_it_was_given(rng: np.random.Generator) -> None:
    text = """
@tilelang.jit
def turned(A, B, C, D):
    A: T.Tensor((32, 64), "float32")
    B: T.Tensor((64, 32), "float32")
    C: T.Tensor((64, 32), "float32")
    D: T.Tensor((16, 64), "float32")
    with T.Kernel(1, threads=128):
        s = T.alloc_shared((32, 64), "float32")
        T.copy(A, s)
        t = T.view(s, (64, 32), strides=(1, 64))
        T.copy(t, B)
        At = T.view(A, (64, 32), strides=(1, 64))
        T.copy(At, C)
        u = T.view(s, (2, 16, 64), strides=(64, 128, 1))
        T.copy(u[1, :, :], D)
"""
    a = random(rng, (32, 64), "float32")
    b, c, d = poison((64, 32), "float32"), poison((64, 32), "float32"), poison((16, 64), "float32")
    run_text(text, {"A": a, "B": b, "C": c, "D": d})
    assert np.array_equal(b, a.T)
    assert np.array_equal(c, a.T)
    assert np.array_equal(d, a[1::2])
