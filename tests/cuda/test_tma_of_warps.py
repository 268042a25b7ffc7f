"""A T.tma_copy that one thread of each warp begins: warps may go their own ways to it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels import lower_text, random
from tests.emulator.block import run
from tests.emulator.memory import poison
from tilelang.diagnostics.error import KernelError

# Two warps load tiles of their own for the others: warp u has tiles of its part of the list alone, so that
# the warps' loops and branches are not taken alike.
PRODUCERS = """
@tilelang.jit
def shares(A, B, scope):
    N = T.const("N")
    A: T.Tensor((N, 64), "float32")
    B: T.Tensor((N, 64), "float32")
    with T.Kernel(1, threads=192):
        ring = T.alloc_shared((2, 64), "float32")
        full, empty = T.alloc_barrier([1] * 2), T.alloc_barrier([64] * 2)
        tx = T.get_thread_binding()
        if tx >= 128:
            u = tx // 32 - 4
            for k in T.serial(N // 2 + 1):
                row = u * (N // 2) + k
                if row < T.if_then_else(u == 0, N // 2, N):
                    T.mbarrier_wait_parity(empty[u], (k & 1) ^ 1)
                    T.tma_copy(A[row, 0:64], ring[u, :], barrier=full[u], leader_scope_threads=scope)
                    if tx % 32 == 0:
                        T.mbarrier_arrive(full[u])
        else:
            v = tx // 64
            for k in T.serial(T.if_then_else(v == 0, N // 2, N - N // 2)):
                T.mbarrier_wait_parity(full[v], k & 1)
                B[v * (N // 2) + k, tx % 64] = ring[v, tx % 64] + 1
                T.mbarrier_arrive(empty[v])
"""


@pytest.mark.parametrize("n", [4, 7])
def test_each_warp_begins_its_own_copies(rng: np.random.Generator, n: int) -> None:
    a, b = random(rng, (n, 64), "float32"), poison((n, 64), "float32")
    run(lower_text(PRODUCERS, "cuda:sm_90a", N=n, scope=32), {"A": a, "B": b})
    np.testing.assert_array_equal(b, a + 1)


def test_one_thread_of_all_cannot_begin_what_some_warps_skip() -> None:
    with pytest.raises(KernelError, match="only some of them come here"):
        lower_text(PRODUCERS, "cuda:sm_90a", N=8, scope="None")
