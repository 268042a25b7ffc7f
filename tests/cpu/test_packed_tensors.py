"""Tensors of 4-bit elements: two in a byte, the first one in its low half."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tests.on_device import DEVICES, compiled_for
from tilelang import reference
from tilelang.analysis.check import check_source
from tilelang.runtime.bind import ArgumentError

VALUES = {
    "int4": [*range(8), *range(-8, 0)],
    "uint4": list(range(16)),
    "float4_e2m1fn": [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6],
}


@tilelang.jit
def widened(A, dtype=T.int4):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), dtype)
    B = T.empty((M, N), T.float32)
    with T.Kernel(M, threads=32) as bx:
        tile = T.alloc_shared((1, N), dtype)
        T.copy(A[bx, 0], tile)
        for j in T.Parallel(N):
            B[bx, j] = tile[0, j]
    return B


@tilelang.jit
def narrowed(A, dtype=T.int4):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    B = T.empty((M, N), dtype)
    with T.Kernel(M, threads=32) as bx:
        for j in T.Parallel(N):
            B[bx, j] = A[bx, j]
    return B


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", sorted(VALUES))
def test_read_and_written(name: str, device: str):
    codes = np.random.default_rng(0).integers(0, 16, (8, 32))
    packed = torch.from_numpy((codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8))
    values = torch.tensor(VALUES[name], dtype=torch.float32)[torch.from_numpy(codes)]
    stored = packed.view(T.dtype(name).as_torch()).to(device)
    found = compiled_for(widened, device)(stored, dtype=T.dtype(name))
    assert torch.equal(found.cpu(), values)
    back = compiled_for(narrowed, device)(values.to(device), dtype=T.dtype(name))
    assert back.shape == (8, 16) and back.dtype == T.dtype(name).as_torch()
    assert torch.equal(back.view(torch.uint8).cpu(), packed)


@pytest.mark.parametrize("name", sorted(VALUES))
def test_the_reference_agrees(name: str):
    codes = np.random.default_rng(1).integers(0, 16, (8, 32))
    packed = torch.from_numpy((codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8))
    sizes = {"M": 8, "N": 32, "dtype": T.dtype(name)}
    read = compiled_for(widened, "cpu").compile(**sizes)
    written = compiled_for(narrowed, "cpu").compile(**sizes)
    values = reference.run(read, packed.view(T.dtype(name).as_torch()))
    assert torch.equal(values, read(packed))
    given = torch.cat([values[:4], torch.linspace(-20, 20, 128).reshape(4, 32)])
    back = reference.run(written, given)
    assert back.dtype == T.dtype(name).as_torch()
    assert torch.equal(back.view(torch.uint8), written(given).view(torch.uint8))


def test_wrong_tensors_are_named():
    kernel = compiled_for(widened, "cpu").compile(M=8, N=32)
    with pytest.raises(ArgumentError, match=r"A shape\[1\] mismatch: dimension 1 is 64, expected 32"):
        kernel(torch.zeros(8, 32, dtype=torch.int8))
    with pytest.raises(ArgumentError, match="A dtype mismatch, expected int4, got int32"):
        kernel(torch.zeros(8, 16, dtype=torch.int32))


def test_metal_refuses_them_with_what_to_do():
    text = """
import tilelang
import tilelang.language as T

@tilelang.jit
def k(A):
    A: T.Tensor((64, 64), T.int4)
    with T.Kernel(1, threads=32):
        for i, j in T.Parallel(64, 64):
            A[i, j] = 1
"""
    (problem,) = check_source("k.py", text, "metal").all_problems()
    assert problem.rule == "missing-dtype" and "declare uint8 with two elements in a byte" in problem.message
