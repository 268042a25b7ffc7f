"""T.vectorized in explicit thread code, loop_layout= of loops and copies: wide accesses, same results."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tests.cuda.kernels import lower_text
from tests.emulator.block import run
from tests.emulator.memory import poison
from tests.on_device import DEVICES, compiled_for
from tilelang.analysis.check import check_source
from tilelang.diagnostics.error import KernelError

VECTORIZED = """
@tilelang.jit
def wide(A, B, C):
    A: T.Tensor((512,), "float16")
    B: T.Tensor((512,), "float32")
    C: T.Tensor((512,), "float16")
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding()
        s = T.alloc_shared((512,), "float16")
        r = T.alloc_local((8,), "float16")
        for i in T.vectorized(8):
            s[tx * 8 + i] = A[tx * 8 + i]
        T.sync_threads()
        for i in T.vectorized(8):
            r[i] = s[504 - tx * 8 + i]
        for i in T.vectorized(8):
            B[tx * 8 + i] = T.float32(r[i]) + A[tx * 8 + i]
        for i in T.vectorized(8):
            B[tx * 8 + i] += T.float32(i)
        for i in T.vectorized(8):
            if tx < 40:
                C[tx * 8 + i] = A[tx * 8 + 7 - i]
"""


def test_vectorized_loops_of_threads_are_wide() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=512).astype("float16")
    b, c = poison((512,), "float32"), np.zeros(512, "float16")
    lowered = lower_text(VECTORIZED)
    run(lowered, {"A": a, "B": b, "C": c})
    turned = a.reshape(64, 8)[::-1].reshape(-1)
    np.testing.assert_array_equal(b, turned.astype("float32") + a + np.tile(np.arange(8), 64))
    backwards = a.reshape(64, 8)[:, ::-1].copy()
    backwards[40:] = 0
    np.testing.assert_array_equal(c, backwards.reshape(-1))
    text = lowered.source.text
    assert "*(uint4*)&s[tx * 8] = *(const uint4*)&A[tx * 8];" in text
    assert text.count("__syncthreads()") == 1  # the author's: no iteration waits for another


DEPENDENT = """
@tilelang.jit
def shifted(A):
    A: T.Tensor((64,), "float32")
    with T.Kernel(1, threads=1):
        for i in T.vectorized(4):
            A[4 + i] = A[3 + i] + 1
        for i in T.vectorized(8, 12):
            A[i] = 5
"""


def test_iterations_that_depend_on_each_other_stay_in_order() -> None:
    a = np.arange(64, dtype="float32")
    run(lower_text(DEPENDENT), {"A": a})
    assert list(a[3:13]) == [3, 4, 5, 6, 7, 5, 5, 5, 5, 12]


@tilelang.jit
def laid_out(A, layout):
    A: T.Tensor((64, 32), "float16")
    B = T.empty((64, 32), "float16")
    with T.Kernel(1, threads=128):
        f = T.alloc_fragment((64, 32), "float16")
        s = T.alloc_shared((64, 32), "float16")
        for i, j in T.Parallel(64, 32, loop_layout=layout):
            f[i, j] = A[i, j] * 2
        T.copy(f, s)
        T.copy(s, B, loop_layout=layout)
    return B


def rows(i, j):
    """Two rows of sixteen neighbours for each thread."""
    return (i % 32) * 4 + j // 8, i // 32 * 8 + j % 8


LAYOUTS = {
    "rows": rows,
    "columns": lambda i, j: (i * 2 + j // 16, j % 16),
    "strided": lambda i, j: (j * 4 + i % 4, i // 4),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", LAYOUTS)
def test_loops_as_the_author_lays_them_out(device: str, name: str) -> None:
    a = torch.randn(64, 32).half()
    layout = T.Fragment((64, 32), forward_fn=LAYOUTS[name])
    found = compiled_for(laid_out, device)(a.to(device), layout=layout).cpu()
    assert torch.equal(found, a * 2)


LAID_OUT = """
layout = T.Fragment((64, 32), forward_fn=lambda i, j: (i * 2 + j // 16, j % 16))

@tilelang.jit
def laid_out(A, B):
    A: T.Tensor((64, 32), "float16")
    B: T.Tensor((64, 32), "float16")
    with T.Kernel(1, threads=128):
        f = T.alloc_fragment((64, 32), "float16")
        for i, j in T.Parallel(64, 32, loop_layout=layout):
            f[i, j] = A[i, j] * 2
        T.copy(f, B, loop_layout=layout)
"""


def test_a_laid_out_loop_decides_for_its_fragment() -> None:
    a, b = np.random.default_rng(0).normal(size=(64, 32)).astype("float16"), poison((64, 32), "float16")
    lowered = lower_text(LAID_OUT)
    run(lowered, {"A": a, "B": b})
    assert np.array_equal(b, a * np.float16(2))
    assert "&A[tx * 16" in lowered.source.text
    assert lowered.registers["f"] == 16


REFUSED = {
    "loop_layout=T.Fragment((32, 32), forward_fn=lambda i, j: (i, j))": "its layout is for (32, 32)",
    "loop_layout=T.Layout((64, 32), lambda i, j: i * 32 + j)": "`loop_layout` must be a T.Fragment",
    "loop_layout=T.Fragment((64, 32), forward_fn=lambda i, j: (i, 0))": "puts (0, 0) and (0, 1) at one",
    "loop_layout=3": "`loop_layout` must be a T.Fragment, not an int",
}


@pytest.mark.parametrize(("given", "said"), REFUSED.items())
def test_a_layout_that_does_not_fit_is_refused_where_it_stands(given: str, said: str) -> None:
    text = LAID_OUT.replace("loop_layout=layout", given, 1)
    text = f"import tilelang\nimport tilelang.language as T\n{text}"
    (problem,) = check_source("k.py", text, "cuda:sm_90").all_problems()
    assert said in problem.message


def test_a_layout_of_other_threads_is_refused() -> None:
    with pytest.raises(KernelError, match="must number 192 threads"):
        lower_text(LAID_OUT.replace("threads=128", "threads=192"))


SLICES = """
@tilelang.jit
def moved(A, B, C):
    A: T.Tensor((64, 8), "float16")
    B: T.Tensor((64, 8), "float32")
    C: T.Tensor((64, 8), "float16")
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding()
        r = T.alloc_local((8,), "float16")
        r[0:8] = A[63 - tx, 0:8]
        B[tx, 0:8] = r[0:8]
        for i in T.Parallel(64):
            C[i, 4:8] = A[i, 0:4]
"""


def test_slices_are_moved_by_each_thread() -> None:
    a = np.random.default_rng(0).normal(size=(64, 8)).astype("float16")
    b, c = poison((64, 8), "float32"), np.zeros((64, 8), "float16")
    lowered = lower_text(SLICES)
    run(lowered, {"A": a, "B": b, "C": c})
    assert np.array_equal(b, a[::-1]) and np.array_equal(c[:, 4:], a[:, :4]) and not c[:, :4].any()
    assert "*(uint4*)&r[0] = *(const uint4*)&A[" in lowered.source.text


def test_slices_of_different_lengths_are_no_move() -> None:
    text = SLICES.replace("A[i, 0:4]", "A[i, 0:3]")
    problems = check_source("k.py", f"import tilelang\nimport tilelang.language as T\n{text}", "cuda:sm_90")
    assert any("is a tile" in p.message for p in problems.all_problems())
