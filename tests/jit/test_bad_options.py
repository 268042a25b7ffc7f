"""Options that mean nothing are refused in words, where they are written."""

from __future__ import annotations

import re

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.autotuner.configurations import expand
from tilelang.diagnostics.error import KernelError
from tilelang.profiler import do_bench
from tilelang.profiler.bench import BenchArgumentError


@T.prim_func
def double(A: T.Tensor((8,), T.float32), B: T.Tensor((8,), T.float32)):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            B[i] = A[i] * 2


@pytest.mark.parametrize("out_idx", ["B", 1.5, [None], ["1"], {"B": 1}])
def test_outputs_are_numbers(out_idx):
    said = re.escape(f"out_idx is {out_idx!r}; expected the number of a parameter")
    with pytest.raises(TypeError, match=said):
        tilelang.compile(double, target="cpu", out_idx=out_idx)


@pytest.mark.parametrize("out_idx", [[1, 1], [1, -1]])
def test_an_output_is_named_once(out_idx):
    with pytest.raises(KernelError, match=rf"out_idx {out_idx[1]}: B is among the outputs already"):
        tilelang.compile(double, target="cpu", out_idx=out_idx)


@tilelang.jit(target="cpu")
def of_no_dtype():
    A = T.empty((8,), T.float32)
    with T.Kernel(8, threads=32) as bx:
        A[bx] = T.Cast("x", bx)
    return A


def test_a_dtype_that_is_none_is_named_with_its_place():
    with pytest.raises(ValueError, match=r"'x' is no dtype that .* \(.*test_bad_options\.py:\d+\)"):
        of_no_dtype.compile()


def test_pass_configurations_are_a_mapping():
    with pytest.raises(TypeError, match=r"pass_configs is \['tl.x'\]; expected a mapping"):
        tilelang.compile(double, target="cpu", pass_configs=["tl.x"])  # pyright: ignore[reportArgumentType]


def test_configurations_to_tune_are_listed():
    with pytest.raises(TypeError, match="configs is 3; expected a list of mappings"):
        expand(3, (), {})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("backend", ["event", "cupti", "cudagraph"])
def test_a_gpu_s_clock_needs_a_gpu(monkeypatch, backend):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match=f"backend {backend} measures on a GPU, and torch sees none"):
        do_bench(lambda: None, backend=backend)


def test_quantiles_are_parts():
    with pytest.raises(BenchArgumentError, match=r"Invalid quantiles: \[0.5, 20\]; each is between 0 and 1"):
        do_bench(lambda: None, rep=1, quantiles=[0.5, 20])


def test_the_inputs_of_a_gpu_kernel_need_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    kernel = tilelang.compile(double, target="cuda:sm_80")
    with pytest.raises(RuntimeError, match="double was compiled for cuda, and torch sees no such device"):
        kernel.get_profiler().do_bench()
