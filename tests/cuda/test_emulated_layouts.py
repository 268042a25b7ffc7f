"""Annotated layouts in the emulator: addresses are those that were asked for; misfits are named."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels import HEAD, lower_text, random
from tests.emulator.block import run
from tests.emulator.memory import poison
from tilelang.analysis.check import check_source

GEMM = """
@tilelang.jit
def gemm(A, B, C, layout_a, layout_b):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), "float16")
    B: T.Tensor((K, N), "float16")
    C: T.Tensor((M, N), "float32")
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
        a = T.alloc_shared((64, 32), "float16")
        b = T.alloc_shared((32, 64), "float16")
        acc = T.alloc_fragment((64, 64), "float32")
        if layout_a == "swizzle":
            T.annotate_layout({a: tilelang.layout.make_half_bank_swizzled_layout(a)})
        elif layout_a == "columns":
            T.annotate_layout({a: lambda i, j: j * 64 + i})
        if layout_b == "linear":
            T.annotate_layout({b: tilelang.layout.make_linear_layout(b)})
        elif layout_b == "own":
            T.annotate_layout({b: T.Layout(b.shape, lambda i, j: [i, j ^ ((i & 7) << 3)])})
        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
            T.copy(A[by * 64, k * 32], a)
            T.copy(B[k * 32, bx * 64], b)
            T.gemm(a, b, acc)
        T.copy(acc, C[by * 64, bx * 64])
"""


@pytest.mark.parametrize(
    ("layout_a", "layout_b", "instruction"),
    [
        ("swizzle", "linear", "ldmatrix_x4"),
        ("none", "own", "ldmatrix_x4_trans"),
        ("columns", "none", "ldmatrix_x4_trans"),
    ],
)
def test_gemm(rng: np.random.Generator, layout_a: str, layout_b: str, instruction: str) -> None:
    a, b = random(rng, (64, 96), "float16"), random(rng, (96, 64), "float16")
    c = poison((64, 64), "float32")
    lowered = lower_text(GEMM, M=64, N=64, K=96, layout_a=repr(layout_a), layout_b=repr(layout_b))
    statistics = run(lowered, {"A": a, "B": b, "C": c})
    np.testing.assert_allclose(c, a.astype("f4") @ b.astype("f4"), rtol=1e-3, atol=1e-2)
    assert instruction in statistics.instructions
    if layout_a == "columns":  # rows are not 16 bytes long, so lanes load the operand one by one
        assert "ldmatrix_x4" not in statistics.instructions


def problems(body: str, setup: str = "a = T.alloc_shared((8, 16), 'float32')") -> list[str]:
    text = f"""{HEAD}@tilelang.jit
def k(A, B):
    A: T.Tensor((8, 16), "float32")
    B: T.Tensor((8, 16), "float32")
    with T.Kernel(1, threads=128) as bx:
        {setup}
        {body}
        T.copy(A, a)
        T.copy(a, B)
"""
    report = check_source("k.py", text, "cuda:sm_90")
    return [p.message for k in report.kernels for p in k.problems]


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ("T.Layout((8, 16), lambda i, j: i + j)", "puts (0, 1) and (1, 0) at one place 1"),
        ("T.Layout((8, 8), lambda i, j: i * 8 + j)", "`a` is (8, 16), its layout is for (8, 8)"),
        ("T.Fragment((8, 16), lambda i, j: (i * 16 + j, 0))", "must be a T.Layout, not a T.Fragment"),
        ("T.Layout((8, 16), lambda i, j: i * 16 - j)", "it gives negative places"),
        ("T.Layout((8, 16), lambda i, j: i * 1.5 + j)", "is no function of the indices"),
        ("tilelang.layout.make_full_bank_swizzled_layout(a)", "a 128-byte swizzle needs rows"),
    ],
)
def test_what_does_not_fit_is_named(layout: str, words: str) -> None:
    found = problems(f"T.annotate_layout({{a: {layout}}})")
    assert any(words in message for message in found), found


def test_fragments_need_fragments() -> None:
    setup = "a = T.alloc_fragment((8, 16), 'float32')"
    found = problems("T.annotate_layout({a: T.Layout((8, 16), lambda i, j: i * 16 + j)})", setup)
    assert any("must be a T.Fragment" in message for message in found), found
    found = problems("T.annotate_layout({a: T.Fragment((8, 16), lambda i, j: (i, j // 2))})", setup)
    assert any("puts (0, 0) and (0, 1) at one register 0 of thread 0" in m for m in found), found
