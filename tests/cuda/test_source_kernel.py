"""T.CUDASourceCodeKernel: a launch of CUDA C++ as its author wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import tilelang
import tilelang.language as T
from tests.cuda.kernels import lower_text
from tests.on_device import compiled_for
from tilelang.analysis.check import check_source
from tilelang.diagnostics.error import KernelError
from tilelang.targets.cuda.toolchain import compile_source, nvcc, nvrtc

SOURCE = """
template <int N> __device__ float times(float x) { return N * x; }

__global__ void __launch_bounds__(128) scale(const float* A, half_t* B, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) B[i] = times<3>(A[i]);
}
"""
KERNEL = f"""
SOURCE = '''{SOURCE}'''

@tilelang.jit
def scaled(A, B):
    n = T.dynamic("n")
    A: T.Tensor((n,), "float32")
    B: T.Tensor((n,), "float16")
    T.CUDASourceCodeKernel(T.ceildiv(n, 128), threads=128, source_code_or_path=SOURCE)
"""
HEAD = "import tilelang\nimport tilelang.language as T\n"


def test_the_source_is_the_kernel() -> None:
    lowered = lower_text(KERNEL, "cuda:sm_90")
    text = lowered.source.text
    assert SOURCE.replace("__global__", 'extern "C" __global__').strip() in text
    assert text.startswith("#include <cuda_fp16.h>\nusing half_t = half;\n")
    plan = lowered.plan
    assert (plan.entry, plan.arguments, plan.threads) == ("scale", ("A", "B", "n"), (128,))
    assert plan.grid == ("(n + 127) // 128",)
    line = 1 + (HEAD + "\n" + KERNEL).splitlines().index(KERNEL.splitlines()[-1])
    assert set(lowered.source.line_map) == {0, line}
    assert check_source("k.py", HEAD + KERNEL, "cuda:sm_90").all_problems() == []


@pytest.mark.toolchain
@pytest.mark.skipif(nvrtc() is None and nvcc() is None, reason="no CUDA compiler on this machine")
def test_it_compiles() -> None:
    lowered = lower_text(KERNEL, "cuda:sm_90")
    compile_source(lowered.source, lowered.target)


def test_a_file_holds_the_source(tmp_path: Path) -> None:
    path = tmp_path / "kernels.cu"
    path.write_text(SOURCE.replace("void scale", "void other") + SOURCE)
    given = f"source_code_or_path={str(path)!r}"
    with pytest.raises(KernelError, match="no `__global__` function main_kernel; entry_name is one of"):
        lower_text(KERNEL.replace("source_code_or_path=SOURCE", given))
    chosen = lower_text(KERNEL.replace("source_code_or_path=SOURCE", f'{given}, entry_name="scale"'))
    assert chosen.plan.entry == "scale"


REFUSED = {
    "source_code_or_path=3": "must be a text or a path, not an int",
    'source_code_or_path="nowhere.cu"': "no file that can be read",
    'source_code_or_path="void f() {}"': "has no `__global__` function",
    "threads=n, source_code_or_path=SOURCE": "known at compile time",
}


@pytest.mark.parametrize(("given", "said"), REFUSED.items())
def test_refusals_help(given: str, said: str) -> None:
    text = HEAD + KERNEL.replace("threads=128, source_code_or_path=SOURCE", given)
    problems = check_source("k.py", text, "cuda:sm_90").all_problems()
    assert [said in p.message for p in problems] == [True], problems


def test_it_stands_alone() -> None:
    beside = KERNEL + "    with T.Kernel(1):\n        pass\n"
    problems = check_source("k.py", HEAD + beside, "cuda:sm_90").all_problems()
    assert ["beside a T.CUDASourceCodeKernel" in p.message for p in problems] == [True]


@pytest.mark.parametrize("target", ["cpu", "hip:gfx942", "metal"])
def test_other_targets_have_nothing_for_it(target: str) -> None:
    (problem,) = check_source("k.py", HEAD + KERNEL, target).all_problems()
    assert problem.rule == "missing-on-target"


@tilelang.jit
def scaled(A):
    n = T.dynamic("n")
    A: T.Tensor((n,), "float32")
    B = T.empty((n,), "float16")
    T.CUDASourceCodeKernel(T.ceildiv(n, 128), threads=128, source_code_or_path=SOURCE)
    return B


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU, torch finds none")
def test_it_runs() -> None:
    a = torch.randn(1000, device="cuda")
    torch.testing.assert_close(compiled_for(scaled, "cuda")(a), (a * 3).half())
