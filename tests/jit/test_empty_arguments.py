"""Tensors without elements, and sizes that no kernel can have."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.diagnostics.error import KernelError
from tilelang.runtime.bind import ArgumentError


@tilelang.jit
def matmul(A, B):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
        a = T.alloc_shared((64, 32), T.float16)
        b = T.alloc_shared((32, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
            T.copy(A[by * 64, k * 32], a)
            T.copy(B[k * 32, bx * 64], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * 64, bx * 64])
    return C


@tilelang.jit
def fill(A):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    C = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(M, 64), threads=64):
        for i in T.Parallel(64):
            C[i] = 1.0
    return C


@pytest.mark.parametrize(("m", "n", "k"), [(0, 64, 32), (64, 0, 32), (0, 0, 32), (0, 0, 0), (64, 70, 0)])
def test_a_product_of_empty_matrices_is_what_torch_makes_it(m: int, n: int, k: int, caplog):
    a, b = torch.zeros(m, k, dtype=torch.float16), torch.zeros(k, n, dtype=torch.float16)
    assert torch.equal(matmul(a, b), (a.float() @ b.float()))
    assert not caplog.records
    assert tilelang.jit(matmul.function, target="metal").compile(M=m, N=n, K=k).get_kernel_source()


def test_an_output_that_no_block_would_write_is_refused():
    with pytest.raises(
        ArgumentError, match=r"the grid of fill is empty \(0\).* the output C of shape \(8,\)"
    ):
        fill(torch.zeros(0, 8))


def test_a_grid_that_is_written_as_zero_is_an_error():
    @tilelang.jit
    def nothing(A):
        A: T.Tensor((64,), T.float32)
        with T.Kernel(T.ceildiv(0, 4), threads=64):
            for i in T.Parallel(64):
                A[i] = 0

    with pytest.raises(KernelError, match="extent 0 of the grid is 0; every extent must be positive"):
        nothing(torch.zeros(64))


def test_sizes_beyond_32_bits_are_named():
    with pytest.raises(
        KernelError, match=r"`M` is 1099511627776, but this compiler counts in 32-bit integers here"
    ):
        matmul.compile(M=1 << 40, N=64, K=64)
    with pytest.raises(KernelError, match=r"`N` is 2147483648, but"):
        matmul.compile(M=64, N=1 << 31, K=64)


def test_a_negative_size_is_refused():
    with pytest.raises(KernelError, match=r"no extent can be negative, but the shape is \(-1, 64\)"):
        matmul.compile(M=-1, N=64, K=64)
