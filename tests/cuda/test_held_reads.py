"""Loops that several threads run alike and that read what they overwrite: all read before one stores."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels import run_text
from tests.emulator.memory import poison
from tilelang.diagnostics.error import KernelError

ROWS, COLUMNS, THREADS = 8, 16, 64
# `f` is held by every thread that has a part of `x`'s row: the reduction gives it to all of them.
KERNEL = """
@tilelang.jit
def k(X, S):
    X: T.Tensor(({rows}, {columns}), T.float32)
    S: T.Tensor(({rows},), T.float32)
    Y = T.empty(({rows}, {columns}), T.float32)
    Z = T.empty(({rows},), T.float32)
    with T.Kernel(1, threads={threads}) as bx:
        x = T.alloc_fragment(({rows}, {columns}), T.float32)
        f = T.alloc_fragment(({rows},), T.float32)
        s = T.alloc_shared(({rows},), T.float32)
        T.copy(X, x)
        T.copy(S, s)
        T.reduce_sum(x, f, dim=1)
        for i in T.Parallel({rows}):
            {body}
        for i, j in T.Parallel({rows}, {columns}):
            x[i, j] = x[i, j] * f[i]
        T.copy(x, Y)
        T.copy(s, Z)
    return Y, Z
"""
BODIES = {
    "bound": ("old = s[i]\n            s[i] = old + f[i]\n            f[i] = old", lambda s, f: (s + f, s)),
    "kept": ("f[i] = f[i] + s[i]\n            s[i] = f[i] * 2", lambda s, f: ((f + s) * 2, f + s)),
    "condition": (
        "if s[i] > 0:\n                f[i] = 3\n            s[i] = 1",
        lambda s, f: (np.ones_like(s), np.where(s > 0, 3, f)),
    ),
    "under": (
        "if i < 5:\n                f[i] = s[i]\n                s[i] = s[i] + 1",
        lambda s, f: (np.where(np.arange(ROWS) < 5, s + 1, s), np.where(np.arange(ROWS) < 5, s, f)),
    ),
    "choice": (
        "f[i] = T.if_then_else(i > 2, s[i], f[i])\n            s[i] = s[i] + 1",
        lambda s, f: (s + 1, np.where(np.arange(ROWS) > 2, s, f)),
    ),
    "after its store": (
        "s[i] = s[i] * 2\n            f[i] = f[i] - s[i]\n            s[i] = s[i] + f[i]",
        lambda s, f: (s * 2 + f - s * 2, f - s * 2),
    ),
    "stored alone": ("s[i] = s[i] + f[i]", lambda s, f: (s + f, f)),
}


def text(body: str) -> str:
    return KERNEL.format(rows=ROWS, columns=COLUMNS, threads=THREADS, body=body)


@pytest.mark.parametrize("name", BODIES)
def test_every_thread_reads_before_one_stores(name: str, rng: np.random.Generator) -> None:
    body, meaning = BODIES[name]
    x, s = rng.normal(size=(ROWS, COLUMNS)).astype(np.float32), rng.normal(size=ROWS).astype(np.float32)
    y, z = poison((ROWS, COLUMNS), "float32"), poison(ROWS, "float32")
    run_text(text(body), {"X": x, "S": s, "Y": y, "Z": z})
    stored, factor = meaning(s, x.sum(1))
    np.testing.assert_allclose(z, stored, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(y, x * factor[:, None], rtol=1e-4, atol=1e-4)


def test_what_was_stored_in_the_same_iteration_cannot_be_read_first() -> None:
    with pytest.raises(KernelError, match="use a shared copy"):
        run_text(text("old = f[i]\n            s[i] = old + 1\n            f[i] = s[i] - old"), {})
