"""Two shapes of one memory: barriers, bytes and layouts count a view as the tile it is a view of."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels import lower_text, random, run_text
from tests.cuda.test_emulated import close
from tests.emulator.memory import poison
from tilelang.diagnostics.error import KernelError


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


def test_a_view_of_a_fragment_is_refused_in_words() -> None:
    text = """
@tilelang.jit
def flat(A):
    A: T.Tensor((64, 64), "float32")
    B = T.empty((4096,), "float32")
    with T.Kernel(1, threads=128):
        part = T.alloc_fragment((64, 64), "float32")
        line = T.reshape(part, (4096,))
        T.copy(A, part)
        for i in T.Parallel(4096):
            B[i] = line[i]
    return B
"""
    with pytest.raises(KernelError, match="line is a view of a fragment"):
        lower_text(text)
