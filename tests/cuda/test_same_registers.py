"""A loop over copies of sums runs where every thread finds them in the same registers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels import lower_text, random
from tests.emulator.block import run
from tests.emulator.memory import poison

# Sums over the G rows of each group, which lie in one warp: each is held by all lanes of its column.
GROUPS = """
@tilelang.jit
def groups(Q, K, O):
    R, G, N = T.const("R, G, N")
    Q: T.Tensor((R, G, 64), "float16")
    K: T.Tensor((N, 64), "float16")
    O: T.Tensor((R, N), "float32")
    with T.Kernel(1, threads=128):
        q = T.alloc_shared((R * G, 64), "float16")
        k = T.alloc_shared((N, 64), "float16")
        s = T.alloc_fragment((R * G, N), "float32")
        parts = T.alloc_fragment((R, G, N), "float32")
        sums = T.alloc_fragment((R, N), "float32")
        out = T.alloc_shared((R, N), "float32")
        for i, j in T.Parallel(R * G, 64):
            q[i, j] = Q[i // G, i % G, j]
        T.copy(K, k)
        T.clear(s)
        T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
        for r, g, n in T.Parallel(R, G, N):
            parts[r, g, n] = s[r * G + g, n] * 0.5
        T.reduce_sum(parts, sums, dim=1)
        for r, n in T.Parallel(R, N):
            out[r, n] = T.if_then_else(n == 3, 1.0, sums[r, n])
        T.copy(out, O)
"""


@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90a"])
@pytest.mark.parametrize(("r", "g"), [(4, 16), (2, 32), (8, 8)])
def test_sums_over_groups_of_rows(rng: np.random.Generator, target: str, r: int, g: int) -> None:
    q, k = random(rng, (r, g, 64), "float16"), random(rng, (64, 64), "float16")
    o = poison((r, 64), "float32")
    run(lower_text(GROUPS, target, R=r, G=g, N=64), {"Q": q, "K": k, "O": o})
    want = 0.5 * (q.astype(np.float32) @ k.astype(np.float32).T).sum(axis=1)
    want[:, 3] = 1
    np.testing.assert_allclose(o, want, rtol=2e-3, atol=5e-2)
