"""Kernels that do not say how many threads a block has, and the language by the name of a target."""

from __future__ import annotations

import textwrap

import pytest
import torch

import tilelang
import tilelang.cpu.language as T
from tilelang import language
from tilelang.analysis.check import check_source
from tilelang_lsp.documents.kernel_discovery import find_kernels
from tilelang_lsp.documents.syntax_tree import SyntaxTree


def total(threads):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(4, threads=threads) as bx:
            for i in T.serial(16):
                T.atomic_add(B[0], A[bx * 16 + i])

    return main


@pytest.mark.parametrize(("threads", "times"), [(None, 1), (1, 1), (32, 32)])
def test_an_atomic_is_done_once_where_no_threads_are_named(threads, times):
    a, b = torch.ones(64), torch.zeros(1)
    tilelang.compile(total(threads), target="c")(a, b)
    assert b.item() == 64 * times


def test_threads_that_are_told_apart_count_all_the_same():
    @T.prim_func
    def main(B: T.Tensor((1,), "int32")):
        with T.Kernel(1):
            tx = T.get_thread_binding()
            T.atomic_add(B[0], tx)

    b = torch.zeros(1, dtype=torch.int32)
    tilelang.compile(main, target="c")(b)
    assert b.item() == 127 * 128 // 2


def test_one_launch_that_names_them_decides_for_all():
    @T.prim_func
    def main(B: T.Tensor((2,), "int32")):
        with T.Kernel(1):
            T.atomic_add(B[0], 1)
        with T.Kernel(1, threads=4):
            T.atomic_add(B[1], 1)

    b = torch.zeros(2, dtype=torch.int32)
    tilelang.compile(main, target="c")(b)
    assert b.tolist() == [128, 4]


def test_a_gpu_gets_128_threads():
    source = tilelang.compile(total(None), target="cuda:sm_80").get_kernel_source()
    assert "__launch_bounds__(128)" in source


KERNEL = textwrap.dedent(
    """
    import tilelang
    import tilelang.{kind}.language as T
    from tilelang.{kind}.language import ceildiv

    @T.prim_func
    def main(A: T.Tensor((100,), "float32")):
        with T.Kernel(ceildiv(100, 32), threads=32) as bx:
            for i in T.Parallel(32):
                A[bx * 32 + i, 0] = 0.0
    """
)


@pytest.mark.parametrize("kind", ["cpu", "cuda", "rocm", "metal"])
def test_the_language_has_a_name_per_target(kind):
    exec(f"import tilelang.{kind}.language as Named", names := {})
    assert names["Named"] is language
    text = KERNEL.format(kind=kind)
    report = check_source("kernel.py", text, "cuda:sm_90")
    assert [k.facts.name for k in report.kernels] == ["main"]
    assert [p.rule for p in report.all_problems()] == ["index-count"]
    assert [k.name for k in find_kernels(SyntaxTree(text))] == ["main"]
