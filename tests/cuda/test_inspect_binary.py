"""Registers and stack as read from a cubin are those that ptxas reports; PTX names its architecture."""

from __future__ import annotations

import re

import pytest

import tilelang
import tilelang.language as T
from tilelang.arch.target import parse_target
from tilelang.facts.reports import GeneratedSource
from tilelang.runtime.artifact import Artifact
from tilelang.runtime.plan import LaunchPlan
from tilelang.targets.cuda import toolchain
from tilelang.targets.cuda.inspect_binary import ptx, resource_usage, sass
from tilelang.targets.toolchain_error import ToolchainError

pytestmark = pytest.mark.toolchain

SPILLING = """
extern "C" __global__ void __launch_bounds__(128) spin(const float* A, float* B, int n) {
  float kept[64];
  for (int i = 0; i < 64; ++i) kept[i] = A[i * 7 + threadIdx.x];
  float sum = 0;
  for (int i = 0; i < n; ++i) { kept[i % 64] += sum; sum += kept[(i * n) % 64]; }
  B[threadIdx.x] = sum;
}
"""
PLAIN = """
extern "C" __global__ void spin(const float* A, float* B, int n) {
  if (threadIdx.x < n) B[threadIdx.x] = A[threadIdx.x] * 2.0f;
}
"""


def artifact(text: str, target: str, binary: bytes) -> Artifact:
    plan = LaunchPlan("spin", (), (), (), (1,), (128,), 0, ())
    return Artifact("spin", target, plan, text, "cuda", (), binary, "cubin")


@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90"])
@pytest.mark.parametrize("text", [SPILLING, PLAIN], ids=["with a stack", "plain"])
def test_registers_and_stack_are_what_ptxas_reports(text, target):
    compiler = toolchain.nvcc()
    if compiler is None:
        pytest.skip("nvcc is not installed")
    source = GeneratedSource("spin", target, "cuda", text, (0,) * text.count("\n"))
    arch = toolchain.code_name(parse_target(target))
    compiled = toolchain.compile_with_nvcc(compiler, source, arch, ["-Xptxas", "-v"])
    registers = int(re.search(r"Used (\d+) registers", compiled.log)[1])
    stack = int(re.search(r"(\d+) bytes stack frame", compiled.log)[1])
    found = resource_usage(artifact(text, target, compiled.binary))
    assert (found.registers, found.local_bytes) == (registers, stack)
    assert found.max_threads == 1024 if registers <= 64 else found.max_threads < 1024


@tilelang.jit(target="cuda:sm_90")
def double(A):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
        for i in T.Parallel(128):
            B[bx * 128 + i] = A[bx * 128 + i] * 2.0
    return B


@pytest.fixture
def kernel(monkeypatch, tmp_path):
    if toolchain.nvrtc() is None and toolchain.nvcc() is None:
        pytest.skip("no CUDA compiler is installed")
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    return double.compile(N=1000)


def test_a_kernel_says_what_it_takes_and_shows_its_ptx(kernel, tmp_path, capsys):
    assert 0 < kernel.n_regs < 64
    assert kernel.n_spills == 0 and kernel.n_max_threads == 1024
    kernel.export_ptx(tmp_path / "double.ptx")
    text = (tmp_path / "double.ptx").read_text()
    assert ".target sm_90a" in text and ".entry double" in text
    kernel.show_ptx()
    assert ".target sm_90a" in capsys.readouterr().out


def test_machine_code_is_shown_or_the_missing_tool_is_named(kernel):
    try:
        assert "double" in sass(kernel.artifact)
    except ToolchainError as error:
        assert "cuobjdump or nvdisasm" in str(error)


def test_a_kernel_without_a_cubin_says_so():
    on_cpu = tilelang.jit(double.function, target="cpu").compile(N=10)
    # Asked for one number it has none; asked for the whole, or for code, it says why there is none.
    assert on_cpu.n_regs is on_cpu.n_spills is on_cpu.n_max_threads is None
    with pytest.raises(ValueError, match=r"double for cpu.* has no cubin"):
        _ = on_cpu.resource_usage
    for show in (on_cpu.show_ptx, lambda: ptx(on_cpu.artifact)):
        with pytest.raises(ValueError, match=r"double was compiled for cpu.*, which has no PTX"):
            show()
