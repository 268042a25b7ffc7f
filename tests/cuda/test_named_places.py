"""Places in shared memory that have names: whose they are is known as if they were written out."""

from __future__ import annotations

import numpy as np

from tests.cuda.kernels import lower_text
from tests.emulator.block import run
from tests.emulator.memory import poison

EXCHANGE = """
@tilelang.jit
def turned(X, Y):
    X: T.Tensor((16, 64), T.float32)
    Y: T.Tensor((16, 64), T.float32)
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        rows = T.alloc_shared((1024,), T.float32)
        for e in T.serial(16):
            place = (t >> 4) * 256 + (e << 4) + t % 16
            rows[place] = X[e, t]
        T.sync_threads()
        for e in T.serial(16):
            Y[e, t] = rows[t * 16 + e]
"""


def test_a_loop_that_writes_to_named_places_needs_no_barrier_inside(rng: np.random.Generator) -> None:
    lowered = lower_text(EXCHANGE)
    assert lowered.source.text.count("__syncthreads()") == 1, "the author's"
    x, y = rng.normal(size=(16, 64)).astype(np.float32), poison((16, 64), "float32")
    run(lowered, {"X": x, "Y": y})
    t, e = np.meshgrid(np.arange(64), np.arange(16))
    rows = np.empty(1024, np.float32)
    rows[(t >> 4) * 256 + (e << 4) + t % 16] = x
    assert np.array_equal(y, rows.reshape(64, 16).T)


def test_threads_that_write_to_one_place_in_turn_still_meet() -> None:
    """The next step of the loop writes where another thread has written."""
    text = EXCHANGE.replace("(e << 4) + t % 16", "(e << 3) + t % 16")
    assert lower_text(text).source.text.count("__syncthreads()") == 2


def waits(source: str) -> list[str]:
    """The barriers of a kernel, indented as they stand."""
    return [line for line in source.splitlines() if "__syncthreads()" in line]


SOLVE = """
@tilelang.jit
def inverse(L, X):
    L: T.Tensor((32, 32), T.float32)
    X: T.Tensor((32, 32), T.float32)
    with T.Kernel(1, threads=64):
        lower = T.alloc_shared((32, 32), T.float32)
        x = T.alloc_shared((32, 32), T.float32)
        T.copy(L, lower)
        for i in T.serial(32):
            for j in T.Parallel(32):
                entry = T.alloc_var(T.float32)
                entry = T.if_then_else(i == j, 1.0, 0.0)
                for before in T.serial(i):
                    entry -= lower[i, before] * x[before, j]
                x[i, j] = entry
        T.copy(x, X)
"""


def test_a_loop_that_ends_at_another_loops_number(rng: np.random.Generator) -> None:
    """Each thread reads the column that it has written: one barrier before the steps, one after them."""
    lowered = lower_text(SOLVE)
    assert waits(lowered.source.text) == ["  __syncthreads();"] * 2, "none inside the loop"
    lower = np.tril(rng.normal(size=(32, 32)), -1).astype(np.float32) * 0.2
    x = poison((32, 32), "float32")
    run(lowered, {"L": lower, "X": x})
    np.testing.assert_allclose(x, np.linalg.inv(lower + np.eye(32)), rtol=1e-3, atol=1e-4)


def test_a_loop_that_reads_what_other_threads_wrote_still_waits() -> None:
    text = SOLVE.replace("x[before, j]", "x[before, (j + 1) % 32]")
    assert "    __syncthreads();" in waits(lower_text(text).source.text)
