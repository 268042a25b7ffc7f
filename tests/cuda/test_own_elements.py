"""Thread code on fragments whose layout the author wrote: each thread reaches the elements that it holds."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels import lower_text
from tests.emulator.block import run
from tests.emulator.memory import poison
from tilelang.diagnostics.error import KernelError

SCALED = """
@tilelang.jit
def scaled(X, Y, Z):
    X: T.Tensor((4, 32), T.float32)
    Y: T.Tensor((4, 32), T.float32)
    Z: T.Tensor((4,), T.float32)
    rows = T.Fragment((4, 32), forward_thread_fn=lambda i, j: i * 32 + j)
    with T.Kernel(1, threads=128):
        thread = T.get_thread_binding()
        row, lane = thread // 32, thread % 32
        f = T.alloc_fragment((4, 32), T.float32)
        T.annotate_layout({f: rows})
        f[row, PLACE] = X[row, lane] + 1.0
        for i, j in T.Parallel(4, 32):
            f[i, j] *= 2.0
        if lane == 5:
            Z[row] = f[row, 5]
        Y[row, lane] = f[row, lane]
"""


def test_each_thread_stores_and_reads_its_element(rng: np.random.Generator) -> None:
    lowered = lower_text(SCALED.replace("PLACE", "lane"))
    assert lowered.layouts["f"] == "1 element in each of 128 threads"
    x = rng.normal(size=(4, 32)).astype(np.float32)
    y, z = poison((4, 32), "float32"), poison(4, "float32")
    run(lowered, {"X": x, "Y": y, "Z": z})
    assert np.array_equal(y, (x + 1) * 2)
    assert np.array_equal(z, y[:, 5])


@pytest.mark.parametrize("place", ["lane ^ 1", "31 - lane"])
def test_another_threads_element_is_refused(place: str) -> None:
    with pytest.raises(KernelError, match=r"T\.annotate_layout, another for the access outside T\.Parallel"):
        lower_text(SCALED.replace("PLACE", place))
