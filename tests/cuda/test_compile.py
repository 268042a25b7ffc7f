"""Generated CUDA compiles for sm_80 and sm_90a, fits into registers, and is as lean as it should be."""

from __future__ import annotations

import re

import pytest

from tests.cuda.kernels import lower_example, lower_text
from tests.cuda.test_emulated import GEMM
from tilelang.arch.target import parse_target
from tilelang.targets.cuda.toolchain import Compiled, compile_source, nvcc, nvrtc
from tilelang.targets.lowered import LoweredKernel

pytestmark = pytest.mark.skipif(nvrtc() is None and nvcc() is None, reason="no CUDA compiler on this machine")

TARGETS = ["cuda:sm_80", "cuda:sm_90"]


def compiled(lowered: LoweredKernel, target: str) -> Compiled:
    return compile_source(lowered.source, parse_target(target), ["--ptxas-options=-v"])


def registers(log: str) -> int:
    return int(re.search(r"Used (\d+) registers", log)[1])  # type: ignore[index]


def spilled(log: str) -> int:
    return sum(int(n) for n in re.findall(r"(\d+) bytes spill", log))


@pytest.mark.parametrize("target", TARGETS)
def test_the_quickstart_needs_no_spills(target: str) -> None:
    log = compiled(lower_example("quickstart", target, M=4096, N=4096, K=4096), target).log
    assert spilled(log) == 0
    assert registers(log) <= 232, "two blocks of 128 threads must fit on a multiprocessor beside their tiles"


@pytest.mark.parametrize(
    ("dtype", "acc"),
    [("bfloat16", "float32"), ("float16", "float16"), ("float32", "float32"), ("int8", "int32")],
)
@pytest.mark.parametrize("tb", [False, True])
def test_gemms_of_all_dtypes(dtype: str, acc: str, tb: bool) -> None:
    lowered = lower_text(
        GEMM, M=512, N=512, K=512, m_t=128, n_t=128, stages=3, dtype=repr(dtype), acc=repr(acc), tb=tb
    )
    assert spilled(compiled(lowered, "cuda:sm_80").log) == 0


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("vector_add", {"N": 1000}),
        ("dynamic_vector_add", {}),
        ("elementwise_2d", {"M": 1000, "N": 1000}),
        ("softmax", {"M": 1000, "N": 1000}),
        ("rms_norm", {"M": 1000, "N": 1001}),
        ("gemm", {"M": 1000, "N": 1000, "K": 1000}),
        ("gemm_dynamic_m", {"N": 1000, "K": 500}),
        ("quickstart", {}),
    ],
)
def test_examples_compile(name: str, sizes: dict[str, int], target: str) -> None:
    compiled(lower_example(name, target, **sizes), target)


def test_launches_that_share_lines_of_declarations() -> None:
    """Two products on tensor cores of Hopper, whose long declarations end in the same line."""
    sizes = {"batch": 1, "seq": 300, "heads": 2, "dim_k": 128, "dim_v": 128}
    lowered = lower_example("linear_attention/linear_attention", "cuda:sm_90", **sizes)
    products = set(re.findall(r"wgmma_\w+", lowered.source.text))
    assert len(products) == 2, "one form for each launch, or this shows nothing"
    assert compiled(lowered, "cuda:sm_90").binary
