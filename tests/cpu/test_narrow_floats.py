"""Floats of 8 bits on the CPU target, against torch: every code is read, every 16-bit float is rounded."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tests.on_device import DEVICES, compiled_for

NAMES = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]


@tilelang.jit
def convert(A, source=T.float32, target=T.float8_e4m3fn):
    N = T.const("N")
    A: T.Tensor((N,), source)
    B = T.empty((N,), target)
    with T.Kernel(T.ceildiv(N, 1024), threads=128) as bx:
        for i in T.Parallel(1024):
            B[bx * 1024 + i] = A[bx * 1024 + i]
    return B


def all_halves(dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(65536, dtype=torch.int32).to(torch.int16).view(dtype)


def saturated(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """torch's conversion of what the dtype's range holds; NaN stays NaN."""
    limits = torch.finfo(dtype)
    if dtype is torch.float8_e8m0fnu:
        return torch.where(x.isnan(), x, x.clamp(max=limits.max)).to(dtype)
    return torch.where(x.isnan(), x, x.clamp(limits.min, limits.max)).to(dtype)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("wide", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", NAMES)
def test_every_code_is_read(device: str, name: str, wide: str):
    if name == "float8_e8m0fnu" and wide == "float16":
        pytest.skip("float16 holds few of its powers of two")
    codes = torch.arange(256, dtype=torch.uint8).view(getattr(torch, name)).to(device)
    found = compiled_for(convert, device)(codes, source=getattr(T, name), target=getattr(T, wide))
    torch.testing.assert_close(found, codes.to(getattr(torch, wide)), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("name", NAMES)
def test_every_16_bit_float_is_rounded(device: str, name: str, source: str):
    dtype = getattr(torch, name)
    if source == "float32":
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(100_000, generator=generator) * torch.exp2(
            torch.rand(100_000, generator=generator) * 45 - 27
        )
    else:
        x = all_halves(getattr(torch, source))
    x = x.abs() if name == "float8_e8m0fnu" else x
    found = compiled_for(convert, device)(x.to(device), source=getattr(T, source), target=getattr(T, name))
    expected = saturated(x.float(), dtype).float()
    torch.testing.assert_close(found.float().cpu(), expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("target", ["int8", "uint8", "int32", "float64"])
def test_other_conversions_go_through_the_number(device: str, target: str):
    codes = torch.arange(0, 0x7F, dtype=torch.uint8).view(torch.float8_e4m3fn).to(device)
    if target.endswith("int8"):
        codes = codes[codes.float() < 128]
    found = compiled_for(convert, device)(codes, source=T.float8_e4m3fn, target=getattr(T, target))
    torch.testing.assert_close(found, codes.float().to(getattr(torch, target)), rtol=0, atol=0)


@tilelang.jit
def arithmetic(A, B, dtype=T.float8_e4m3fn):
    N = T.const("N")
    A: T.Tensor((N,), dtype)
    B: T.Tensor((N,), dtype)
    C = T.empty((4, N), dtype)
    with T.Kernel(1, threads=128):
        for i in T.Parallel(N):
            C[0, i] = A[i] + B[i]
            C[1, i] = A[i] * B[i]
            C[2, i] = T.max(A[i], B[i])
            C[3, i] = T.if_then_else(A[i] < B[i], T.exp(A[i]), 0.3)
    return C


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", NAMES[:4])
def test_arithmetic_is_rounded_after_every_operation(device: str, name: str):
    dtype = getattr(torch, name)
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.randn(512, generator=generator).to(dtype) for _ in range(2))
    found = compiled_for(arithmetic, device)(a.to(device), b.to(device), dtype=getattr(T, name)).cpu()
    x, y = a.float(), b.float()
    fill = torch.tensor(0.3).to(dtype).float()
    expected = [x + y, x * y, torch.maximum(x, y), torch.where(x < y, x.exp(), fill)]
    for row, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(row.float(), saturated(wanted, dtype).float(), rtol=0, atol=0)


@tilelang.jit
def bits(A):
    N = T.const("N")
    A: T.Tensor((N,), T.uint8)
    B = T.empty((N,), T.uint8)
    C = T.empty((N,), T.float32)
    with T.Kernel(1, threads=128):
        for i in T.Parallel(N):
            value = T.reinterpret(A[i], T.float8_e5m2)
            C[i] = value
            B[i] = T.reinterpret(T.float8_e5m2(T.float32(value)), T.uint8)
    return B, C


@pytest.mark.parametrize("device", DEVICES)
def test_reinterpret_reads_and_writes_bits(device: str):
    codes = torch.arange(256, dtype=torch.uint8).to(device)
    same, values = compiled_for(bits, device)(codes)
    expected = codes.view(torch.float8_e5m2).float()
    torch.testing.assert_close(values, expected, rtol=0, atol=0, equal_nan=True)
    # Conversion saturates infinity and gives one NaN.
    finite = expected.isfinite()
    assert torch.equal(same[finite], codes[finite])
    assert same[0x7C] == 0x7B and same[0xFC] == 0xFB


@tilelang.jit
def row_maximum(A, dtype=T.float8_e5m2):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), dtype)
    B = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, 16), threads=32) as bx:
        tile = T.alloc_shared((16, N), dtype)
        part = T.alloc_fragment((16, N), dtype)
        top = T.alloc_fragment((16,), T.float32)
        T.copy(A[bx * 16, 0], tile)
        T.copy(tile, part)
        T.reduce_max(part, top, dim=1)
        T.copy(top, B[bx * 16])
    return B


@pytest.mark.parametrize("device", DEVICES)
def test_tiles_of_narrow_floats(device: str):
    a = torch.randn(48, 64, generator=torch.Generator().manual_seed(2)).to(torch.float8_e5m2).to(device)
    found = compiled_for(row_maximum, device)(a)
    torch.testing.assert_close(found, a.float().amax(1), rtol=0, atol=0)
