"""Weights of 4 bits as kernels store them: two in a byte of uint8, taken apart by shifts and masks."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

from tests.cuda.kernels import lower_text
from tests.emulator.block import run
from tests.emulator.memory import poison
from tests.on_device import DEVICES, compiled_for
from tilelang.targets.driver import build

TEXT = """
def int4_value(byte, place):
    nibble = (byte >> T.uint8(place * 4)) & T.uint8(15)
    return T.cast((T.cast(nibble, T.int8) << 4) >> 4, T.float16)


def fp4_value(byte, place):
    nibble = T.cast(byte >> T.cast(place * 4, T.uint8), T.uint16) & T.uint16(15)
    sign = nibble >> T.uint16(3)
    exponent = (nibble & T.uint16(6)) >> T.uint16(1)
    mantissa = nibble & T.uint16(1)
    bits = (sign << T.uint16(15)) | ((exponent + T.uint16(126)) << T.uint16(7)) | (mantissa << T.uint16(6))
    small = T.Select(mantissa == T.uint16(1), T.bfloat16(0.5), T.bfloat16(0.0))
    signed = T.Select(sign == T.uint16(1), -small, small)
    return T.Select(exponent == T.uint16(0), signed, T.reinterpret(bits, T.bfloat16))


@tilelang.jit
def dequantised(A, B, fp4: bool):
    M, N, K = T.const("M, N, K")
    dtype = T.bfloat16 if fp4 else T.float16
    A: T.Tensor((M, K), dtype)
    B: T.Tensor((N, K // 2), T.uint8)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32), threads=64) as (bx, by):
        a = T.alloc_shared((32, 32), dtype)
        packed = T.alloc_shared((32, 16), T.uint8)
        b = T.alloc_shared((32, 32), dtype)
        acc = T.alloc_fragment((32, 32), T.float32)
        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
            T.copy(A[by * 32, k * 32], a)
            T.copy(B[bx * 32, k * 16], packed)
            for i, j in T.Parallel(32, 32):
                if fp4:
                    b[i, j] = fp4_value(packed[i, j // 2], j % 2)
                else:
                    b[i, j] = int4_value(packed[i, j // 2], j % 2)
            T.gemm(a, b, acc, transpose_B=True)
        T.copy(acc, C[by * 32, bx * 32])
    return C
"""
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
INT4 = np.array([*range(8), *range(-8, 0)], np.float32)


def operands(fp4: bool) -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
    """A, the packed B and what A · Bᵀ is."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 16, (64, 64))
    packed = (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)
    a = torch.from_numpy(rng.normal(size=(32, 64)).astype(np.float32))
    a = a.to(torch.bfloat16 if fp4 else torch.float16)
    return a, packed, a.float().numpy() @ (FP4 if fp4 else INT4)[codes].T


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory):
    import importlib.util

    path = tmp_path_factory.mktemp("packed") / "packed_storage.py"
    path.write_text("import tilelang\nimport tilelang.language as T\n" + TEXT)
    spec = importlib.util.spec_from_file_location("packed_storage", path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("fp4", [False, True], ids=["int4", "fp4"])
def test_against_torch(device: str, fp4: bool, module) -> None:
    a, packed, expected = operands(fp4)
    found = compiled_for(module.dequantised, device)(
        a.to(device), torch.from_numpy(packed).to(device), fp4=fp4
    )
    np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("fp4", [False, True], ids=["int4", "fp4"])
def test_in_the_emulator(fp4: bool) -> None:
    a, packed, expected = operands(fp4)
    lowered = lower_text("import tilelang\nimport tilelang.language as T\n" + TEXT, M=32, N=64, K=64, fp4=fp4)
    held = a.view(torch.int16).numpy().view(ml_dtypes.bfloat16 if fp4 else np.float16)
    c = poison((32, 64), "float32")
    run(lowered, {"A": held, "B": packed, "C": c})
    np.testing.assert_allclose(c, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90", "hip:gfx942"])
@pytest.mark.parametrize("fp4", [False, True], ids=["int4", "fp4"])
def test_compiles(fp4: bool, target: str) -> None:
    text = "import tilelang\nimport tilelang.language as T\n" + TEXT
    assert build(lower_text(text, target, M=32, N=64, K=64, fp4=fp4)).binary
