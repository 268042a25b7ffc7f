"""Chosen rounding, bit counts, conversions with options and dp4a: what the one-line table cannot show."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tests.on_device import DEVICES, compiled_for
from tilelang import reference

MODES = ("rn", "rz", "ru", "rd")


@tilelang.jit
def rounded(X, Y, Z, modes=MODES):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y: T.Tensor((N,), T.float32)
    Z: T.Tensor((N,), T.float32)
    R = T.empty((7, 4, N), T.float32)
    with T.Kernel(1, threads=128):
        for i in T.Parallel(N):
            for j, mode in enumerate(modes):
                R[0, j, i] = T.ieee_add(X[i], Y[i], mode)
                R[1, j, i] = T.ieee_sub(X[i], Y[i], mode)
                R[2, j, i] = T.ieee_mul(X[i], Y[i], mode)
                R[3, j, i] = T.ieee_fdiv(X[i], Y[i], mode)
                R[4, j, i] = T.ieee_fmaf(X[i], Y[i], Z[i], mode)
                R[5, j, i] = T.ieee_frcp(Y[i], mode)
                R[6, j, i] = T.ieee_fsqrt(T.abs(X[i]), mode)
    return R


def exactly(value: Fraction, mode: str) -> np.float32:
    """The float32 that `value` is rounded to."""
    near = np.float32(float(value))
    around = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    low = max(n for n in around if Fraction(float(n)) <= value)
    high = min(n for n in around if Fraction(float(n)) >= value)
    if mode == "rn":
        below, above = value - Fraction(float(low)), Fraction(float(high)) - value
        even = low if int(low.view(np.uint32)) % 2 == 0 else high
        return even if below == above else low if below < above else high
    return {"ru": high, "rd": low, "rz": low if value > 0 else high}[mode]


@pytest.mark.parametrize("device", DEVICES)
def test_rounding_modes_are_exact(device: str):
    generator = torch.Generator().manual_seed(0)
    scale = [torch.exp2(torch.randint(-30, 30, (256,), generator=generator).float()) for _ in range(3)]
    x, y, z = (torch.randn(256, generator=generator) * s for s in scale)
    found = compiled_for(rounded, device)(*(t.to(device) for t in (x, y, z))).cpu().numpy()
    for i in range(256):
        a, b, c = (Fraction(float(t[i])) for t in (x, y, z))
        for row, value in enumerate((a + b, a - b, a * b, a / b, a * b + c, 1 / b)):
            expected = [exactly(value, mode) for mode in MODES]
            assert list(found[row, :, i]) == expected, (row, float(value))
        nearest, inwards, up, down = (Fraction(float(v)) for v in found[6, :, i])
        assert down == inwards <= nearest <= up
        assert down**2 <= abs(a) <= up**2
        assert float(up) <= float(np.nextafter(np.float32(float(down)), np.float32(np.inf)))


@tilelang.jit
def not_saturated(A, dtype=T.float8_e4m3fn):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), dtype)
    with T.Kernel(1, threads=128):
        for i in T.Parallel(N):
            B[i] = T.cast(A[i], dtype, sat=False)
    return B


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_casts_without_saturation(device: str, name: str):
    """Against ml_dtypes: newer versions of torch saturate."""
    x = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.float16).float()
    x = torch.cat([x, torch.linspace(57344, 70000, 1000), torch.linspace(-70000, -57344, 1000)])
    found = compiled_for(not_saturated, device)(x.to(device), dtype=getattr(T, name)).cpu()
    expected = torch.from_numpy(x.numpy().astype(getattr(ml_dtypes, name)).astype(np.float32))
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=0, equal_nan=True)


@tilelang.jit
def dot_of_four(A, B):
    M, K = T.const("M, K")
    A: T.Tensor((M, K), T.int8)
    B: T.Tensor((K,), T.int8)
    C = T.empty((M,), T.int32)
    with T.Kernel(M, threads=32) as bx:
        a = T.alloc_local((K,), T.int8)
        b = T.alloc_local((K,), T.int8)
        c = T.alloc_local((1,), T.int32)
        T.clear(c)
        for k in T.serial(K):
            a[k] = A[bx, k]
            b[k] = B[k]
        for k in T.serial(K // 4):
            T.dp4a(a[k * 4], b[k * 4], c[0])
        C[bx] = c[0]
    return C


@pytest.mark.parametrize("device", DEVICES)
def test_dp4a(device: str):
    generator = torch.Generator().manual_seed(0)
    a = torch.randint(-128, 128, (8, 16), generator=generator, dtype=torch.int8)
    b = torch.randint(-128, 128, (16,), generator=generator, dtype=torch.int8)
    found = compiled_for(dot_of_four, device)(a.to(device), b.to(device)).cpu()
    assert torch.equal(found, (a.int() * b.int()).sum(1, dtype=torch.int32))


REFUSED = {
    'T.ieee_add(x, x, "up")': "rounding_mode is one of",
    "T.popcount(x)": "bits are counted in integers",
    "T.infinity(T.float8_e4m3fn)": "float8_e4m3fn has no infinity; use T.max_value",
    'T.cast(x, T.float8_e5m2, round="rz")': "conversions round to the nearest",
    "T.__ldg(A)": "one element is read",
    "T.__ldg(A, [0, i])": "`A` has 1 dimensions, but `index` has 2",
}


@pytest.mark.parametrize(("expression", "said"), REFUSED.items())
def test_refusals_help(expression: str, said: str):
    from tilelang.analysis.check import check_source

    text = f"""
import tilelang
import tilelang.language as T

@tilelang.jit
def k(A):
    A: T.Tensor((64,), T.float32)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(64):
            x = A[i]
            A[i] = {expression}
"""
    (problem,) = check_source("k.py", text, "cuda:sm_90").all_problems()
    assert said in problem.message


@tilelang.jit
def approximated(X):
    X: T.Tensor((64,), T.float64)
    R = T.empty((9, 64), T.float64)
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        x = X[t]
        R[0, t : t + 1] = T.__exp(x)  # a slice of one element is that element
        R[1:2, t] = T.__exp10(x)
        R[2:3, t : t + 1] = T.__log(x)
        R[3, t] = T.__log2(x)
        R[4, t] = T.__log10(x)
        R[5, t] = T.__sin(x)
        R[6, t] = T.__cos(x)
        R[7, t] = T.__tan(x)
        R[8, t] = T.fast_rcp(x)
    return R


@pytest.mark.parametrize("device", DEVICES)
def test_doubles_are_computed_as_doubles(device: str):
    x = torch.rand(64, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.1
    logarithms = (torch.log, torch.log2, torch.log10)
    functions = (torch.exp, lambda v: 10**v, *logarithms, torch.sin, torch.cos, torch.tan)
    expected = torch.stack([*(f(x) for f in functions), 1 / x])
    found = compiled_for(approximated, device)(x.to(device)).cpu()
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-14)


@T.prim_func
def read_only(A: T.Tensor((70,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        for j in T.serial(2):  # the second reads behind the end, where there are zeros
            B[t] = T.__ldg(A[t + j * 10]) + T.__ldg(A, t) * T.__exp(A[t])
        for i in T.Parallel(64):
            B[i] += T.ieee_mul(T.__ldg(A[i]), A[i], "ru")


def read_only_twice(a: torch.Tensor) -> torch.Tensor:
    later = torch.cat([a[10:], torch.zeros(4)])
    return later + a[:64] * a[:64].exp() + a[:64] * a[:64]


@pytest.mark.parametrize("device", DEVICES)
def test_reads_of_what_nothing_writes(device: str):
    a = torch.rand(70, generator=torch.Generator().manual_seed(0))
    b = torch.zeros(64, device=device)
    tilelang.compile(read_only, target=device)(a.to(device), b)
    torch.testing.assert_close(b.cpu(), read_only_twice(a), rtol=1e-5, atol=1e-6)


def test_reads_of_what_nothing_writes_have_their_meaning():
    a = torch.rand(70, generator=torch.Generator().manual_seed(0))
    b = torch.zeros(64)
    reference.run(read_only, a, b)
    torch.testing.assert_close(b, read_only_twice(a), rtol=1e-5, atol=1e-6)


def test_reads_of_what_nothing_writes_are_printed_where_they_stand_alone():
    source = tilelang.lower(read_only, target="cuda:sm_90").kernel_source
    assert "(j * 10 + tx < 70 ? A[j * 10 + tx] : 0.0f) + __ldg(&A[tx]) * __expf(A[tx])" in source
    assert source.count("__ldg(") == 1  # elements of a parallel loop are read together


@pytest.mark.parametrize("device", DEVICES)
def test_sigmoid_of_doubles(device: str):
    @T.prim_func
    def sigmoid(A: T.Tensor((64,), "float64"), B: T.Tensor((64,), "float64")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[i] = T.sigmoid(A[i])

    a = torch.randn(64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    b = torch.zeros(64, dtype=torch.float64, device=device)
    tilelang.compile(sigmoid, target=device)(a.to(device), b)
    torch.testing.assert_close(b.cpu(), a.sigmoid(), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("target", ["cuda:sm_80", "hip:gfx942"])
def test_sigmoid_of_doubles_compiles(target: str):
    @T.prim_func
    def sigmoid(A: T.Tensor((64,), "float64")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                A[i] = T.sigmoid(A[i])

    assert tilelang.compile(sigmoid, target=target).artifact is not None
