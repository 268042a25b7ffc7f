"""Kernels with an option that is off: tiles without elements, loops of no iteration, folds of nothing."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import tilelang
from tests.cuda.kernels import lower_text
from tests.emulator.block import run as emulate
from tests.frontend.programs import live_module
from tilelang.analysis.check import check_source
from tilelang.reference import run as meaning

ADDED = """
import tilelang
import tilelang.language as T

@tilelang.jit
def k(A, extra=0, stages=2):
    A: T.Tensor((4, 64), T.float32)
    B = T.empty((64,), T.float32)
    with T.Kernel(1, threads=32):
        s = T.alloc_shared((64, extra), T.float32)
        f = T.alloc_fragment((64, extra), T.float32)
        row = T.alloc_shared((64,), T.float32)
        total = T.alloc_fragment((64,), T.float32)
        T.clear(total)
        for step in T.Pipelined(4, num_stages=stages):
            T.copy(A[step, 0], row)
            T.fill(s, 2.0)
            T.copy(s, f)
            for i, j in T.Parallel(64, extra):
                total[i] = total[i] + f[i, j]
            if step > 2:
                for i, j in T.Parallel(64, extra):
                    f[i, j] = f[i, j] * 2.0
            for i in T.Parallel(64):
                total[i] = total[i] + row[i]
        for i in T.Parallel(64):
            B[i] = total[i]
    return B
"""
FOLDED = """
import tilelang
import tilelang.language as T

@tilelang.jit
def k(A, extra=0):
    A: T.Tensor((8,), T.int32)
    B = T.empty((6, 8), T.int32)
    with T.Kernel(1, threads=32):
        f = T.alloc_fragment((8, extra), T.int32)
        empty = T.alloc_fragment((extra,), T.int32)
        sums = T.alloc_fragment((8,), T.int32)
        most = T.alloc_fragment((8,), T.int32)
        least = T.alloc_fragment((8,), T.int32)
        kept = T.alloc_fragment((8,), T.int32)
        ones = T.alloc_fragment((8,), T.int32)
        T.clear(f)
        T.copy(A, kept)
        T.reduce_sum(f, sums, dim=1)
        T.reduce_max(f, most, dim=1)
        T.reduce_min(f, least, dim=1)
        T.reduce_sum(f, kept, dim=1, clear=False)
        T.reduce_bitand(f, ones, dim=1)
        T.reduce_sum(f, empty, dim=0)
        T.copy(A[4:4], B[0, 0:0])
        T.copy(A, B[0, 0:8])
        T.copy(sums, B[1, 0:8])
        T.copy(most, B[2, 0:8])
        T.copy(least, B[3, 0:8])
        T.copy(kept, B[4, 0:8])
        T.copy(ones, B[5, 0:8])
    return B
"""


@pytest.mark.parametrize("text", [ADDED, FOLDED], ids=["added", "folded"])
def test_what_has_no_elements_does_nothing(text: str):
    report = check_source("k.py", text, "cuda:sm_80")
    assert [p for p in report.all_problems() if p.severity.value in ("error", "warning")] == []
    dtype = torch.float32 if text is ADDED else torch.int32
    a = torch.arange(256 if text is ADDED else 8, dtype=dtype).reshape((4, 64) if text is ADDED else 8)
    compiled = tilelang.jit(live_module(text)["k"].function, target="cpu").compile(a)
    wanted = meaning(compiled, a)
    assert torch.equal(compiled(a), wanted)
    by_cuda = np.full(tuple(wanted.shape), 77, wanted.numpy().dtype)
    emulate(lower_text(text), {"A": a.numpy(), "B": by_cuda}, {})
    assert np.array_equal(by_cuda, wanted.numpy())
    if text is FOLDED:
        info = np.iinfo(np.int32)
        assert [int(v) for v in by_cuda[1:, 1]] == [0, info.min, info.max, 1, -1]


def test_no_trace_of_them_is_left_in_the_source():
    source = lower_text(ADDED).source.text
    assert "row" in source and "if (step > 2)" not in source
    assert not re.search(r"\b[sf]\b", source)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64", "int8", "int64"])
def test_bits_of_every_width_are_folded(dtype: str):
    """The value that folding begins with has all bits of its dtype."""
    text = f"""
@tilelang.jit
def k(A):
    A: T.Tensor((4, 64), "{dtype}")
    B = T.empty((4,), "{dtype}")
    with T.Kernel(1, threads=32):
        f = T.alloc_fragment((4, 64), "{dtype}")
        r = T.alloc_fragment((4,), "{dtype}")
        T.copy(A, f)
        T.reduce_bitand(f, r, dim=1)
        T.copy(r, B)
    return B
"""
    bits = np.dtype(dtype).itemsize * 8
    high = np.array(2 ** (bits - 1) + 5, f"uint{bits}").astype(dtype)
    a = np.full((4, 64), high, dtype)
    a[1, 3] = 4
    b = np.zeros(4, dtype)
    emulate(lower_text(text), {"A": a, "B": b}, {})
    assert b.tolist() == np.bitwise_and.reduce(a, axis=1).tolist() and b[0] == high
