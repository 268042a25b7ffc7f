"""The C conversions of narrow floats, compiled for this machine, against ml_dtypes and torch."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import ml_dtypes
import numpy as np
import pytest
import torch

from tilelang.arch.float_formats import FORMATS
from tilelang.targets.emit.dialect import COMMON_HELPERS
from tilelang.targets.emit.narrow_floats import declaration, from_name, literal, to_name

COMPILER = shutil.which("c++") or shutil.which("clang++") or shutil.which("clang++-19")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    assert COMPILER is not None, "the tests need a C++ compiler"
    parts = [COMMON_HELPERS["bit_cast"].source or ""]
    for name in FORMATS:
        parts += [declaration(name), COMMON_HELPERS[to_name(name)].source or ""]
        parts.append(COMMON_HELPERS[from_name(name)].source or "")
        parts.append(
            f'extern "C" void encode_{name}(const float* x, unsigned char* y, long n) {{\n'
            f"  for (long i = 0; i < n; ++i) y[i] = {to_name(name)}(x[i]).bits;\n}}\n"
            f'extern "C" void decode_{name}(const unsigned char* x, float* y, long n) {{\n'
            f"  for (long i = 0; i < n; ++i) y[i] = {from_name(name)}({name}{{x[i]}});\n}}"
        )
    folder = tmp_path_factory.mktemp("narrow")
    source, shared = folder / "narrow.cpp", folder / "narrow.so"
    source.write_text("\n".join(parts))
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-o", shared, source], check=True)
    return ctypes.CDLL(str(shared))


def call(function: ctypes._CFuncPtr, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    function(*(ctypes.c_void_p(a.ctypes.data) for a in (x, y)), ctypes.c_long(x.size))
    return y


@pytest.mark.parametrize("name", list(FORMATS))
def test_every_code_is_read(library: ctypes.CDLL, name: str) -> None:
    codes = np.arange(1 << FORMATS[name].bits, dtype=np.uint8)
    found = call(library[f"decode_{name}"], codes, np.empty(codes.size, np.float32))
    np.testing.assert_array_equal(found, codes.view(getattr(ml_dtypes, name)).astype(np.float32))


@pytest.mark.parametrize("name", list(FORMATS))
def test_every_16_bit_float_is_rounded(library: ctypes.CDLL, name: str) -> None:
    f = FORMATS[name]
    bits = np.arange(65536, dtype=np.uint16)
    rng = np.random.default_rng(0)
    many = rng.normal(size=100_000) * np.exp2(rng.uniform(-30, 20, 100_000))
    x = np.concatenate(
        [bits.view(np.float16).astype(np.float32), bits.view(ml_dtypes.bfloat16).astype(np.float32), many]
    ).astype(np.float32)
    if not f.sign:
        x = np.abs(x)
    found = call(library[f"encode_{name}"], x, np.empty(x.size, np.uint8)).view(getattr(ml_dtypes, name))
    inside = np.clip(x, -f.largest, f.largest)
    if f.sign:
        expected = inside.astype(getattr(ml_dtypes, name)).astype(np.float32)
    else:  # of zero and of ties between the smallest powers ml_dtypes has another opinion than torch
        expected = torch.from_numpy(inside).to(torch.float8_e8m0fnu).float().numpy()
    if f.nan_code is None:
        expected = np.where(np.isnan(x), np.float32(f.largest), expected)
    np.testing.assert_array_equal(found.astype(np.float32), expected)


def test_constants_are_written_by_their_bits() -> None:
    assert literal("float8_e4m3fnuz", 1.0) == "float8_e4m3fnuz{0x40}"
    assert literal("float8_e5m2fnuz", -0.0) == "float8_e5m2fnuz{0x00}"
    assert literal("float4_e2m1fn", 100.0) == "float4_e2m1fn{0x07}"
