"""An update of a fragment outside of T.Parallel is made once, also in kernels that name their threads."""

from __future__ import annotations

import torch

import tilelang
import tilelang.language as T


@tilelang.jit(target="cpu")
def sums(A, B):
    A: T.Tensor((4, 2), T.float32)
    B: T.Tensor((2, 8), T.float32)
    with T.Kernel(2, threads=96) as bx:
        total = T.alloc_fragment((1,), T.float32)
        line = T.alloc_shared((8,), T.float32)
        total[0] = 0
        for k in T.serial(4):
            total[0] += A[k, bx]
        for j in T.Parallel(8):
            line[j] = total[0] + j
        if T.get_thread_binding() < 32:
            for j in T.Parallel(8):
                B[bx, j] = line[j]


def test_every_thread_adds_to_its_own_copy() -> None:
    a, b = torch.rand(4, 2), torch.zeros(2, 8)
    kernel = sums.compile()
    kernel.reference(a, b)
    torch.testing.assert_close(b, a.sum(0)[:, None] + torch.arange(8.0))
    again = torch.zeros(2, 8)
    kernel(a, again)
    torch.testing.assert_close(again, b)
