"""Packed pairs: elements of vector dtypes (float32x2), slices of two neighbours, T.add2 and relatives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tests.cuda.kernels import lower_text
from tests.emulator.block import run
from tests.on_device import DEVICES, compiled_for
from tilelang import reference
from tilelang.analysis.check import check_source
from tilelang.diagnostics.error import KernelError

DTYPES = ["float16", "bfloat16", "float32"]


@tilelang.jit
def pairs(A, B, dtype):
    A: T.Tensor((256,), dtype)
    B: T.Tensor((256,), dtype)
    sums = T.empty((256,), dtype)
    chosen = T.empty((256,), dtype)
    with T.Kernel(1, threads=128):
        tx = T.get_thread_binding()
        a = T.alloc_local((2,), f"{dtype}x2")
        A2 = T.view(A, (128,), f"{dtype}x2")
        sums2 = T.view(sums, (-1,), f"{dtype}x2")
        a[0] = B[tx]  # into both elements
        a[0] = A2[tx] + a[0] - B[tx]
        a[1] = T.sub2(B[tx * 2 : tx * 2 + 2], a[0])
        product = T.mul2(a[0], a[1])
        a[1] = T.abs2(a[1])
        sums2[127 - tx] = T.add2(product, a[1])
        low = T.min2(a[0], product)
        chosen[tx * 2 : tx * 2 + 2] = T.max2(low, T.fma2(a[0], a[0], a[1]))
    return sums, chosen


def _expected(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rest = b - a
    product = a * rest
    sums = (product + rest.abs()).reshape(128, 2).flip(0).reshape(-1)
    return sums, torch.maximum(torch.minimum(a, product), a * a + rest.abs())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("device", DEVICES)
def test_pairs_are_computed_element_by_element(device: str, dtype: str) -> None:
    torch.manual_seed(0)
    # Small integers: every dtype computes with them exactly, fused or not.
    a, b = (torch.randint(-6, 7, (256,)).to(getattr(torch, dtype)).to(device) for _ in range(2))
    kernel = compiled_for(pairs, device).compile(dtype=dtype)
    for got, want in zip(kernel(a, b), _expected(a.cpu(), b.cpu()), strict=True):
        assert torch.equal(got.cpu(), want)
    for got, want in zip(reference.run(kernel, a, b), _expected(a.cpu(), b.cpu()), strict=True):
        assert torch.equal(got, want)


TILES = """
@tilelang.jit
def tiles(A, B, C):
    A: T.Tensor((6, 64), "float32")
    B: T.Tensor((6, 64), "float32")
    C: T.Tensor((6, 64), "float16")
    with T.Kernel(1, threads=32):
        A2 = T.view(A, (6, 32), "float32x2")
        B2 = T.view(B, (6, 32), "float32x2")
        s = T.alloc_shared((6, 32), "float32x2")
        T.copy(A2, s)
        for i, j in T.Parallel(6, 32):
            if j < 20:
                y = T.add2(s[i, j], s[5 - i, j])
                B2[i, j] = y
                C[i, 2 * j : 2 * j + 2] = y
"""


def test_tiles_of_pairs_in_the_emulator() -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(-9, 9, (6, 64)).astype("float32")
    b, c = np.zeros((6, 64), "float32"), np.zeros((6, 64), "float16")
    run(lower_text(TILES), {"A": a, "B": b, "C": c})
    want = np.where(np.arange(64) < 40, a + a[::-1], 0)
    np.testing.assert_array_equal(b, want)
    np.testing.assert_array_equal(c.astype("float32"), want)


WIDE = """
@tilelang.jit
def wide(A, B):
    A: T.Tensor((512,), "float16")
    B: T.Tensor((512,), "float16")
    with T.Kernel(1, threads=128):
        tx = T.get_thread_binding()
        A4 = T.view(A, (128,), "float16x4")
        B4 = T.view(B, (128,), "float16x4")
        B4[tx] = A4[127 - tx] * T.float16(2) + A4[tx] * A[0] + 1
"""


def test_vectors_are_moved_at_once() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, 512).astype("float16"), np.zeros(512, "float16")
    lowered = lower_text(WIDE)
    run(lowered, {"A": a, "B": b})
    np.testing.assert_array_equal(b, 2 * a.reshape(128, 4)[::-1].reshape(-1) + a * a[0] + 1)
    assert lowered.source.text.count("*(const uint2*)&A4[") == 2


SHAPE = """A: T.Tensor((256,), "float32")
    with T.Kernel(1, threads=128):
        tx = T.get_thread_binding()
"""


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("A[tx] = T.add2(A[tx], A[tx])", "`x` is float32, expected float16x2, bfloat16x2 or float32x2"),
        ("A[tx] = T.add2(A[0:2], A[0:2])", "a float32x2 cannot be stored in one element of `A`"),
        ("A[0:2] = T.mul2(A[0:2], 2.0)", "`y` is a float, expected float32x2"),
    ],
)
def test_what_is_no_pair_is_said(statement: str, message: str) -> None:
    text = (
        "import tilelang\nimport tilelang.language as T\n\n\n"
        f"@tilelang.jit\ndef k(A):\n    {SHAPE}        {statement}\n"
    )
    found = [p.message for p in check_source("k.py", text, "cuda").all_problems()]
    assert any(message in m for m in found), found


@tilelang.jit
def of_vectors(A, B, C, dtype: str, lanes: int):
    A: T.Tensor((3, 8), f"{dtype}x{lanes}")
    B: T.Tensor((3, 8), f"{dtype}x{lanes}")
    C: T.Tensor((3, 8), f"float32x{lanes}")
    with T.Kernel(3, threads=32) as bx:
        s = T.alloc_shared((8,), f"{dtype}x{lanes}")
        v = T.alloc_var(f"{dtype}x{lanes}")
        T.copy(A[bx, :], s)
        for j in T.Parallel(8):
            B[bx, j] = T.max(s[j], s[7 - j]) * s[j]
        if T.get_thread_binding() == 0:
            for j in range(8):
                v = s[j] - s[0]
                C[bx, j] = T.cast(v, f"float32x{lanes}")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("dtype", "lanes"), [("float16", 2), ("bfloat16", 2), ("float32", 2), ("float32", 4), ("int32", 2)]
)
def test_a_parameter_of_vectors_takes_a_tensor_of_their_elements(device: str, dtype: str, lanes: int) -> None:
    x = torch.randint(-9, 9, (3, 8, lanes), generator=torch.Generator().manual_seed(0))
    a = x.flatten(1).to(getattr(torch, dtype)).to(device)
    b, c = torch.zeros_like(a), torch.zeros(a.shape, device=device)
    compiled_for(of_vectors, device)(a, b, c, dtype, lanes)
    assert torch.equal(b.cpu().long(), (torch.maximum(x, x.flip(1)) * x).flatten(1))
    assert torch.equal(c.cpu().long(), (x - x[:, :1]).flatten(1))
    with pytest.raises(ValueError, match=f"dimension 1 is 8, expected {8 * lanes}"):
        compiled_for(of_vectors, device)(a[:, :8].contiguous(), b, c, dtype, lanes)


def test_unsupported_uses_of_vectors_are_refused() -> None:
    summed = """
@tilelang.jit
def k(A, B):
    A: T.Tensor((8, 64), "float32")
    B: T.Tensor((8,), "float32")
    with T.Kernel(1, threads=64):
        f = T.alloc_fragment((8, 32), "float32x2")
        r = T.alloc_fragment((8,), "float32")
        T.copy(T.view(A, (8, 32), "float32x2"), f)
        T.reduce_sum(f, r, dim=1)
        T.copy(r, B)
"""
    with pytest.raises(KernelError, match="float32x2 is not supported here"):
        lower_text(summed)


@tilelang.jit
def bits_of_pairs(words, dtype):
    words: T.Tensor((64,), T.uint32)
    least = T.empty((64,), T.uint32)
    wide = T.empty((64,), T.float32)
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding()
        both = T.alloc_local((1,), f"{dtype}x2")
        both[0] = T.min2(T.reinterpret(words[tx], f"{dtype}x2"), T.reinterpret(words[63 - tx], f"{dtype}x2"))
        least[tx] = T.reinterpret(both[0], "uint32")
        wide[tx] = T.reinterpret(both[0], "float32")
    return least, wide


@pytest.mark.parametrize("dtype", DTYPES[:2])
@pytest.mark.parametrize("device", DEVICES)
def test_the_bits_of_a_word_are_a_pair_and_the_other_way_round(device: str, dtype: str) -> None:
    torch.manual_seed(0)
    pairs_in = torch.randn(64, 2).to(getattr(torch, dtype))
    words = pairs_in.view(torch.int32).reshape(64).view(torch.uint32)
    want = torch.minimum(pairs_in, pairs_in.flip(0))
    kernel = compiled_for(bits_of_pairs, device).compile(dtype=dtype)
    for made in (kernel(words.to(device)), reference.run(kernel, words)):
        for got in made:
            assert torch.equal(got.cpu().view(torch.int32).view(want.dtype).reshape(64, 2), want)
