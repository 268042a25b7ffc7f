"""Tensors whose elements are not where their shape says, or into which no kernel must write, are refused by
name: before anything is written, and also where a good tensor of the same shape was passed before.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import tilelang
import tilelang.language as T
from tests.runtime.test_cuda_launch import BOUND, artifact, record
from tilelang.arch.target import parse_target
from tilelang.frontend.environments.live import trace_lazy
from tilelang.jit.compiling import prim_func_of
from tilelang.runtime import cuda
from tilelang.runtime.bind import ArgumentError
from tilelang.runtime.plan import TensorParam
from tilelang.targets.driver import lower

__all__ = ["record"]  # a fixture


@T.prim_func
def scale(A: T.Tensor((4, 4), T.float32), B: T.StridedTensor((4, 4), (T.dynamic("s"), 1), T.float32)):
    with T.Kernel(4, threads=32) as row:
        for j in T.Parallel(4):
            B[row, j] = A[row, j] * 2


@pytest.fixture(scope="module")
def kernel():
    return tilelang.compile(scale, target="llvm")


def freed() -> torch.Tensor:
    tensor = torch.ones(4, 4)
    tensor.untyped_storage().resize_(0)
    return tensor


def fake() -> torch.Tensor:
    with FakeTensorMode():
        return torch.ones(4, 4)


def negated() -> torch.Tensor:
    """What torch negates when it reads, contiguous."""
    return torch.zeros(4, 4, 2)[..., 0].contiguous().to(torch.complex64).conj().imag


def between_elements() -> np.ndarray:
    """Floats that lie six bytes apart."""
    return np.zeros((4, 4), [("value", np.float32), ("more", np.int16)])["value"]


UNUSABLE: dict[str, tuple[Any, str]] = {
    "freed": (freed(), "kernel scale input A has no memory"),
    "fake": (fake(), "kernel scale input A has no memory"),
    "sparse": (torch.eye(4).to_sparse(), "its layout is sparse_coo; pass A.to_dense()"),
    "sparse rows": (torch.eye(4).to_sparse_csr(), "its layout is sparse_csr; pass A.to_dense()"),
    "negated": (negated(), "pass A.resolve_neg()"),
    "nested": (torch.nested.nested_tensor([torch.ones(4)] * 4), "it is a nested tensor"),
    "between elements": (between_elements(), "pass A.copy()"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_nothing_is_written_and_the_argument_is_named(kernel, name):
    given, said = UNUSABLE[name]
    out = torch.zeros(4, 4)
    for _ in range(2):
        with pytest.raises(ArgumentError, match=re.escape(said)):
            kernel(given, out)
        assert not out.any()
        kernel(torch.ones(4, 4), out)  # now its shape and dtype are known
        out.zero_()


def test_inside_of_vmap(kernel):
    def row_by_row(a: torch.Tensor) -> torch.Tensor:
        kernel(a, torch.zeros(4, 4))
        return a

    with pytest.raises(ArgumentError, match=r"input A has no memory: .* inside of torch\.vmap"):
        torch.vmap(row_by_row)(torch.ones(2, 4, 4))


def test_a_written_tensor_that_requires_grad(kernel):
    a, out = torch.ones(4, 4, requires_grad=True), torch.zeros(4, 4, requires_grad=True)
    with pytest.raises(ArgumentError, match=r"input B cannot be used: it requires grad, .* pass B\.detach"):
        kernel(a, out)
    assert not out.any()
    kernel(a, out.detach())  # reading is no matter
    assert out.eq(2).all()
    with torch.no_grad():
        kernel(a, out)
    with pytest.raises(ArgumentError, match="it requires grad"):
        kernel(a, out)


def test_a_written_tensor_whose_elements_share_memory(kernel):
    with pytest.raises(ArgumentError, match=r"input B strides\[0\] mismatch: .* its 4 elements are one"):
        kernel(torch.ones(4, 4), torch.zeros(1, 4).expand(4, 4))


def test_an_array_that_must_not_be_written(kernel):
    given, out = np.ones((4, 4), np.float32), np.zeros((4, 4), np.float32)
    kernel(given, out)
    out[:] = 0
    out.flags.writeable = False
    with pytest.raises(ArgumentError, match=r"the array is read-only; pass B\.copy\(\)"):
        kernel(given, out)
    assert not out.any()


@T.prim_func
def add_rows(A: T.Tensor((4, 4), T.float32), B: T.Tensor((4, 4), T.float32), C: T.Tensor((16,), T.float32)):
    with T.Kernel(1, threads=32):
        tile = T.alloc_shared((4, 4), T.float32)
        flat = T.view(C, (4, 4))
        T.copy(A, tile)
        T.atomic_add(B, tile)
        T.copy(tile, flat)


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_80"])
def test_a_plan_says_what_is_written(target):
    chosen = parse_target(target)
    plan = lower(prim_func_of(trace_lazy(add_rows), chosen), chosen).plan
    assert [isinstance(p, TensorParam) and p.written for p in plan.params] == [False, True, True]


def test_a_null_address_never_reaches_the_driver(record):
    gone = torch.zeros(7)
    gone.untyped_storage().resize_(0)
    with pytest.raises(ArgumentError, match="input A has no memory"):
        cuda.CudaFunction(artifact()).launch([gone, 0.5, -2, torch.zeros(7)], [7], BOUND)
    assert record.launches == 0
