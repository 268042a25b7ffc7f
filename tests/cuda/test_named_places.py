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
