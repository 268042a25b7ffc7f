"""The reference follows pointer arguments: T.make_tensor says what is at the address, strides included."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.reference.errors import NoMeaning, ReferenceFailure


@tilelang.jit(target="cpu")
def left_halves(a: T.ptr, n: T.int32, B: T.Tensor((16, 8), "float32")):
    with T.Kernel(1, threads=32):
        A = T.make_tensor(a, (n, 8), "float32", strides=(16, 1))
        for i, j in T.Parallel(16, 8):
            if i < n:
                B[i, j] = A[i, j]
                A[i, j] = 0


def test_strides_of_a_pointer() -> None:
    kernel = left_halves.compile()
    a, seen = torch.randn(12, 16), torch.zeros(16, 8)
    before = a.clone()
    kernel.reference(a, 12, seen)
    assert torch.equal(seen[:12], before[:, :8])
    assert not a[:, :8].any() and torch.equal(a[:, 8:], before[:, 8:])
    again, found = before.clone(), torch.zeros(16, 8)
    kernel(again, 12, found)
    assert torch.equal(found, seen) and torch.equal(again, a)


def test_memory_behind_the_tensor_that_is_given() -> None:
    """As on a device, the tensor says only where the memory begins."""
    whole = torch.arange(16.0 * 12 + 5)
    seen = torch.zeros(16, 8)
    left_halves.compile().reference(whole[5:6], 12, seen)
    assert torch.equal(seen[:12], torch.arange(5.0, 197.0).view(12, 16)[:, :8])


def test_too_little_memory() -> None:
    with pytest.raises(ReferenceFailure, match="a must lead to 184 elements of float32, there are 100"):
        left_halves.compile().reference(torch.zeros(100), 12, torch.zeros(16, 8))


def test_an_address_as_a_number() -> None:
    with pytest.raises(NoMeaning, match="needs the tensor that begins there"):
        left_halves.compile().reference(torch.zeros(200).data_ptr(), 12, torch.zeros(16, 8))
