"""Tile operations on the CPU target against torch, allocations poisoned."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tests.on_device import compiled_for, random

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16


def run(kernel, *args, **kwargs):
    return compiled_for(kernel, "cpu")(*args, **kwargs)


# -- copy
# ------------------------------------------------------------------------------------------------------


@tilelang.jit
def through_tiles(A, block_M: int = 16, block_N: int = 32, dtype=T.float32, out_dtype=T.float32):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), dtype)
    B = T.empty((M, N), out_dtype)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=64) as (bx, by):
        s = T.alloc_shared((block_M, block_N), dtype)
        f = T.alloc_fragment((block_M, block_N), out_dtype)
        T.copy(A[by * block_M, bx * block_N], s)
        T.copy(s, f)
        T.copy(f, B[by * block_M, bx * block_N])
    return B


@pytest.mark.parametrize("shape", [(16, 32), (64, 64), (17, 33), (1, 1), (40, 31)])
def test_copy_global_shared_fragment_global(shape):
    a = random(*shape)
    assert torch.equal(run(through_tiles, a), a)


@pytest.mark.parametrize("source", [F32, F16, BF16, torch.int8, torch.int32])
@pytest.mark.parametrize("target", [F32, F16, BF16])
def test_copy_converts(source, target):
    a = random(20, 40, dtype=source)
    assert torch.equal(run(through_tiles, a, dtype=source, out_dtype=target), a.to(target))


def test_out_of_range_reads_are_zero_and_writes_are_skipped():
    @tilelang.jit
    def window(A, shift: int = 0):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        seen = T.empty((16,), "float32")
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((16,), "float32")
            T.copy(A[shift], s)
            T.copy(s, seen)
            T.copy(s, A[N - 4])
        return seen

    a = torch.arange(1.0, 11.0)
    seen = run(window, a, shift=6)
    assert seen.tolist() == [7, 8, 9, 10] + [0] * 12
    assert a.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]


def test_extents_from_slices_and_points_with_leading_ones():
    @tilelang.jit
    def batch(A):
        A: T.Tensor((3, 20, 24), "float32")
        B = T.empty((3, 20, 24), "float32")
        with T.Kernel(3, threads=32) as b:
            s = T.alloc_shared((16, 8), "float32")
            for j in T.serial(3):
                T.copy(A[b, 0:16, j * 8 : j * 8 + 8], s)
                T.copy(s, B[b, 0, j * 8])
                T.copy(A[b, 16, j * 8], s)
                T.copy(s, B[b, 16, j * 8])
        return B

    a = random(3, 20, 24)
    assert torch.equal(run(batch, a), a)


# -- fill and reduce
# -------------------------------------------------------------------------------------------


def test_fill_and_clear():
    @tilelang.jit
    def parts():
        B = T.empty((8, 8), "float16")
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((8, 8), "float16")
            T.clear(s)
            T.fill(s[2:4, 0:8], 1.5)
            T.copy(s, B)
        return B

    expected = torch.zeros(8, 8, dtype=F16)
    expected[2:4] = 1.5
    assert torch.equal(run(parts), expected)


_REDUCE = {
    "sum": lambda x, d: x.sum(d),
    "max": lambda x, d: x.amax(d),
    "min": lambda x, d: x.amin(d),
    "abssum": lambda x, d: x.abs().sum(d),
    "absmax": lambda x, d: x.abs().amax(d),
}


@tilelang.jit
def reduced(A, kind: str = "sum", dim: int = 1, dtype=T.float32, out_dtype=T.float32):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), dtype)
    R = T.empty((M if dim == 1 else N,), out_dtype)
    with T.Kernel(1, threads=32):
        x = T.alloc_fragment((M, N), dtype)
        r = T.alloc_fragment((M if dim == 1 else N,), out_dtype)
        T.copy(A, x)
        if kind == "sum":
            T.reduce_sum(x, r, dim=dim)
        elif kind == "max":
            T.reduce_max(x, r, dim=dim)
        elif kind == "min":
            T.reduce_min(x, r, dim=dim)
        elif kind == "abssum":
            T.reduce_abssum(x, r, dim=dim)
        else:
            T.reduce_absmax(x, r, dim=dim)
        T.copy(r, R)
    return R


@pytest.mark.parametrize("kind", list(_REDUCE))
@pytest.mark.parametrize(("shape", "dim"), [((5, 100), 1), ((4, 32), 1), ((7, 3), 1), ((37, 20), 0)])
def test_reduce(kind, shape, dim):
    x = random(*shape) - 3  # all maxima of such rows may be negative: a start at zero would show
    torch.testing.assert_close(run(reduced, x, kind=kind, dim=dim), _REDUCE[kind](x, dim))


@pytest.mark.parametrize("dtype", [F16, BF16])
def test_half_precision_sums_accumulate_in_float(dtype):
    x = torch.full((2, 3000), 0.1).to(dtype)
    found = run(reduced, x, dtype=dtype, out_dtype=dtype)
    torch.testing.assert_close(found, x.float().sum(1).to(dtype))


def test_integer_reductions():
    x = random(5, 50, dtype=torch.int32)
    assert torch.equal(run(reduced, x, kind="max", dtype=T.int32, out_dtype=T.int32), x.amax(1))
    assert torch.equal(run(reduced, x, kind="sum", dtype=T.int32, out_dtype=T.int32), x.sum(1).int())


def test_a_reduction_that_keeps_the_old_contents():
    @tilelang.jit
    def running(A):
        A: T.Tensor((4, 64), "float32")
        R = T.empty((4,), "float32")
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((4, 32), "float32")
            r = T.alloc_fragment((4,), "float32")
            T.fill(r, -T.infinity("float32"))
            for k in T.serial(2):
                T.copy(A[0, k * 32], x)
                T.reduce_max(x, r, dim=1, clear=False)
            T.copy(r, R)
        return R

    a = random(4, 64)
    assert torch.equal(run(running, a), a.amax(1))


# -- gemm
# ------------------------------------------------------------------------------------------------------


@tilelang.jit
def tile_gemm(
    A,
    B,
    M: int = 16,
    N: int = 16,
    K: int = 16,
    ta: bool = False,
    tb: bool = False,
    clear: bool = False,
    dtype=T.float32,
    accum=T.float32,
    in_fragment: bool = False,
):
    A: T.Tensor((K, M) if ta else (M, K), dtype)
    B: T.Tensor((N, K) if tb else (K, N), dtype)
    C = T.empty((M, N), accum)
    with T.Kernel(1, threads=128):
        a = (
            T.alloc_fragment((M, K), dtype)
            if in_fragment
            else T.alloc_shared((K, M) if ta else (M, K), dtype)
        )
        b = T.alloc_shared((N, K) if tb else (K, N), dtype)
        c = T.alloc_fragment((M, N), accum)
        T.copy(A, a)
        T.copy(B, b)
        T.fill(c, 1)
        for k in T.serial(2):
            T.gemm(a, b, c, transpose_A=ta, transpose_B=tb, clear_accum=(k == 0) if clear else False)
        T.copy(c, C)
    return C


@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize("size", [(16, 16, 16), (64, 32, 48), (48, 24, 16)])
def test_gemm_transposes_and_sizes(size, ta, tb):
    m, n, k = size
    a, b = random(m, k), random(k, n, seed=1)
    found = run(
        tile_gemm,
        a.t().contiguous() if ta else a,
        b.t().contiguous() if tb else b,
        M=m,
        N=n,
        K=k,
        ta=ta,
        tb=tb,
    )
    torch.testing.assert_close(found, 2 * (a @ b) + 1, rtol=1e-4, atol=1e-4)


def test_clear_accum_as_an_expression():
    a, b = random(16, 16), random(16, 16, seed=1)
    torch.testing.assert_close(run(tile_gemm, a, b, clear=True), 2 * (a @ b), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("dtype", "accum"),
    [(F16, F32), (F16, F16), (BF16, F32), (torch.float64, torch.float64), (torch.int8, torch.int32)],
)
def test_gemm_dtypes(dtype, accum):
    a, b = random(32, 64, dtype=dtype), random(64, 40, dtype=dtype, seed=1)
    found = run(tile_gemm, a, b, M=32, N=40, K=64, dtype=dtype, accum=accum, in_fragment=True)
    expected = (2 * (a.double() @ b.double()) + 1).to(accum)
    tolerance = {F32: 1e-4, F16: 2e-2, torch.float64: 1e-12, torch.int32: 0}[accum]
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance * 8)


def test_gemm_on_slices_and_on_a_reshaped_tile():
    @tilelang.jit
    def kernel(A, B):
        A: T.Tensor((2, 32, 32), "float16")
        B: T.Tensor((1024,), "float16")
        C = T.empty((32, 32), "float32")
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((2, 32, 32), "float16")
            flat = T.alloc_shared((1024,), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.copy(A, a)
            T.copy(B, flat)
            T.clear(c)
            for s in T.serial(2):
                T.gemm(a[s, :, :], T.reshape(flat, (32, 32)), c)
            T.copy(c, C)
        return C

    a, b = random(2, 32, 32, dtype=F16), random(1024, dtype=F16)
    expected = a.float().sum(0) @ b.float().reshape(32, 32)
    torch.testing.assert_close(run(kernel, a, b), expected, rtol=1e-3, atol=1e-2)
