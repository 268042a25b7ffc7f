"""Tiles of 4-bit elements by TMA: bytes to the hardware, two numbers each; and kernels that fetch them so."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tests.cuda.kernels import HEAD, lower_text
from tests.cuda.test_packed_elements import codes_of, numbers, packed
from tests.cuda.test_warp_groups import specialised
from tests.emulator.block import run
from tilelang.diagnostics.error import KernelError
from tilelang.targets.driver import build

needs_sm_90 = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="needs an sm_90 GPU"
)
DTYPES = ["int4", "float4_e2m1fn"]


@tilelang.jit
def moved(A, dtype="int4", n=128):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), dtype)
    C = T.empty((M, N), dtype)
    F = T.empty((M, N), "float16")
    with T.Kernel(T.ceildiv(N, n), T.ceildiv(M, 32), threads=64) as (bx, by):
        a = T.alloc_shared((32, n), dtype)
        there = T.alloc_barrier(64)
        T.tma_copy(A[by * 32, bx * n], a, barrier=there)
        T.mbarrier_arrive(there)
        T.mbarrier_wait_parity(there, 0)
        for i, j in T.Parallel(32, n):
            F[by * 32 + i, bx * n + j] = T.cast(a[i, j], "float16")
        T.tma_copy(a, C[by * 32, bx * n])
        T.tma_store_wait(0)
    return C, F


@tilelang.jit(pass_configs={"tl.disable_warp_specialized": False})
def dequantised(A, B, dtype="int4"):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), "float16")
    B: T.Tensor((N, K), dtype)
    C = T.empty((M, N), "float32")
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 128), threads=128) as (bx, by):
        a = T.alloc_shared((128, 64), "float16")
        codes = T.alloc_shared((64, 64), dtype)
        b = T.alloc_shared((64, 64), "float16")
        acc = T.alloc_fragment((128, 64), "float32")
        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=3):
            T.copy(A[by * 128, k * 64], a)
            T.copy(B[bx * 64, k * 64], codes)
            for i, j in T.Parallel(64, 64):
                b[i, j] = T.cast(codes[i, j], "float16")
            T.gemm(a, b, acc, transpose_B=True)
        T.copy(acc, C[by * 128, bx * 64])
    return C


MOVED, DEQUANTISED = (inspect.getsource(k.function) for k in (moved, dequantised))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [128, 512])
def test_boxes_in_and_out(dtype, n):
    codes = codes_of((40, 1088))
    given = {"A": packed(codes), "C": np.zeros((40, 544), np.int8), "F": np.zeros((40, 1088), np.float16)}
    lowered = lower_text(HEAD + MOVED, "cuda:sm_90", dtype=repr(dtype), n=n, M=40, N=1088)
    assert [(m.dtype, m.shape[0]) for m in lowered.plan.descriptors] == [("uint8", 544)] * 2
    run(lowered, given)
    assert (given["C"].view(np.uint8) == given["A"].view(np.uint8)).all()
    assert (given["F"] == numbers(dtype, codes)).all()
    assert build(lowered).binary


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_warp_group_that_fetches(dtype, rng):
    codes, a = codes_of((128, 256)), rng.standard_normal((128, 256)).astype(np.float16)
    c = np.zeros((128, 128), np.float32)
    lowered = specialised(DEQUANTISED, dtype=repr(dtype), M=128, N=128, K=256)
    assert not lowered.notes and [m.tensor for m in lowered.plan.descriptors] == ["A", "B"]
    run(lowered, {"A": a, "B": packed(codes), "C": c})
    np.testing.assert_allclose(
        c, a.astype(float) @ numbers(dtype, codes).astype(float).T, rtol=1e-4, atol=1e-3
    )
    assert build(lowered).binary


def test_half_a_byte_is_no_place_to_begin():
    text = HEAD + MOVED.replace("A[by * 32, bx * n], a", "A[by * 32, bx * n + 1], a")
    with pytest.raises(KernelError, match="its part of A may begin in the middle of a byte"):
        lower_text(text, "cuda:sm_90", M=64, N=1024)


@pytest.mark.gpu
@needs_sm_90
@pytest.mark.parametrize("dtype", DTYPES)
def test_on_a_device(dtype):
    codes = codes_of((40, 1088))
    given = torch.from_numpy(packed(codes).view(np.int8)).cuda()
    found, wide = moved(given, dtype=dtype)
    assert torch.equal(found.view(torch.int8), given)
    assert (wide.cpu().numpy() == numbers(dtype, codes)).all()
    codes, a = codes_of((384, 512)), torch.randn(256, 512, device="cuda").half()
    found = dequantised(a, torch.from_numpy(packed(codes).view(np.int8)).cuda(), dtype=dtype)
    wanted = a.double() @ torch.from_numpy(numbers(dtype, codes)).cuda().double().T
    torch.testing.assert_close(found.double(), wanted, rtol=1e-3, atol=1e-2)
