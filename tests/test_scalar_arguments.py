"""Scalars that the caller passes, in every dtype a number can have."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tests.on_device import DEVICES
from tilelang.runtime.cuda import bfloat_bits, half_bits

VALUES = {"float16": 1.5, "bfloat16": -2.5, "float32": 0.75, "float64": 1.25, "int8": -7, "uint16": 40_000}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", VALUES)
def test_a_scalar_arrives_as_it_was_passed(dtype: str, device: str) -> None:
    @T.prim_func
    def add(x: getattr(T, dtype), A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[i] = A[i] + T.cast(x, "float32")

    kernel = tilelang.compile(add, target="cpu" if device == "cpu" else "auto")
    a, b = torch.randn(64, device=device), torch.empty(64, device=device)
    kernel(VALUES[dtype], a, b)
    torch.testing.assert_close(b, a + VALUES[dtype])


@pytest.mark.parametrize(
    "value", [0.0, 1.0, -2.5, 1 / 3, 65504.0, 1e-7, 1e39, -1e39, float("inf"), float("nan")]
)
def test_the_bits_of_a_short_float_are_those_of_torch(value: float) -> None:
    for encode, dtype in ((half_bits, torch.float16), (bfloat_bits, torch.bfloat16)):
        bits = struct.pack("<H", encode(value))
        mine = torch.frombuffer(bytearray(bits), dtype=dtype)[0].float()
        expected = torch.tensor(value, dtype=torch.float64).to(dtype).float()
        assert torch.equal(mine, expected) or (mine.isnan() and expected.isnan())


@T.prim_func
def repeat(n: T.int32, A: T.Tensor((64,), "float32")):
    with T.Kernel(n, threads=32) as bx:
        A[bx] = 1.0


@pytest.mark.parametrize("wrap", [torch.tensor, np.int64, lambda n: torch.tensor([n])])
def test_a_tensor_of_one_element_is_its_number(wrap) -> None:
    kernel = tilelang.compile(repeat, target="cpu")
    for n in (3, 5):  # the grid is that of the number, not that of the first call
        written = torch.zeros(64)
        kernel(wrap(n), written)
        assert int(written.sum()) == n
    with pytest.raises(ValueError, match="n must be a number of int32"):
        kernel(torch.tensor([1, 2]), torch.zeros(64))
