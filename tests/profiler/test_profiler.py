"""Comparing a kernel with a reference: agreement passes, disagreement says how much and where."""

from __future__ import annotations

import pytest
import torch

from tests.ir.hand_made import vector_add
from tilelang.jit.compiling import compile_func
from tilelang.jit.options import CompileOptions


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILELANG_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield compile_func(vector_add(100), CompileOptions.read(target="cpu", out_idx=-1))


def test_agreement(kernel):
    profiler = kernel.get_profiler()
    profiler.assert_allclose(lambda a, b: a + b, atol=0, rtol=1e-6)
    profiler.assert_consistent(repeat=3)
    assert profiler.do_bench(n_warmup=1, n_repeat=3) > 0
    assert profiler.do_bench(lambda a, b: a + b, n_warmup=1, n_repeat=3) > 0


def test_disagreement_says_where_and_how_much(kernel):
    def wrong(a, b):
        c = a + b
        c[7] += 2
        return c

    with pytest.raises(
        AssertionError, match=r"C differs from the reference in 1 of 100 elements .* first at \(7,\)"
    ):
        kernel.get_profiler().assert_allclose(wrong, max_mismatched_ratio=0)
    kernel.get_profiler().assert_allclose(wrong, max_mismatched_ratio=0.01)


def test_another_shape(kernel):
    with pytest.raises(AssertionError, match=r"C has shape \(100,\), the reference \(50,\)"):
        kernel.get_profiler().assert_allclose(lambda a, b: (a + b)[:50])


def test_a_kernel_without_outputs_is_compared_on_its_tensors(tmp_path, monkeypatch):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    writes = compile_func(vector_add(100), CompileOptions.read(target="cpu"))

    def reference(a, b, c):
        c.copy_(a + b)

    writes.get_profiler().assert_allclose(reference, max_mismatched_ratio=0)
    with pytest.raises(AssertionError, match="C differs"):
        writes.get_profiler().assert_allclose(lambda a, b, c: None)


def test_a_check_of_the_user_s_own(kernel):
    seen = []
    kernel.get_profiler().manual_assert_close(
        lambda a, b: a + b, manual_check_prog=lambda x, y: seen.append((x, y))
    )
    (found,), (expected,) = seen[0]
    assert torch.equal(found, expected)


def test_another_number_of_results(kernel):
    profiler = kernel.get_profiler()
    with pytest.raises(AssertionError, match="the kernel returns 1 tensors, the reference gives 2"):
        profiler.assert_allclose(lambda a, b: (a + b, a))


def test_a_reference_of_a_kernel_without_outputs_writes_too(tmp_path, monkeypatch):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    kernel = compile_func(vector_add(), CompileOptions.read(target="cpu", out_idx=[]))
    with pytest.raises(
        AssertionError, match="writes to its 3 tensors, the reference gives 1: it should write"
    ):
        kernel.get_profiler().assert_allclose(lambda a, b, c: a + b)
