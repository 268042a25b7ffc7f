"""CUDA text to a cubin without a GPU: both compilers, errors at the Python lines, and what is missing."""

from __future__ import annotations

import pytest

from tilelang.arch.target import parse_target
from tilelang.facts.reports import GeneratedSource
from tilelang.targets.cuda import toolchain
from tilelang.targets.cuda.toolchain import ToolchainError

TEXT = """#include <cuda_fp16.h>
extern "C" __global__ void __launch_bounds__(128) scale(const half* A, float* B, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) B[i] = __half2float(A[i]) * 2.0f;
}
"""


def source(text: str = TEXT) -> GeneratedSource:
    return GeneratedSource(
        "scale", "cuda:sm_80", "cuda", text, tuple(20 + i for i in range(len(text.splitlines())))
    )


@pytest.fixture(params=["nvrtc", "nvcc"])
def compiler(request, monkeypatch):
    """Each compiler in turn; skipped where it is not installed."""
    if getattr(toolchain, request.param)() is None:
        pytest.skip(f"{request.param} is not installed")
    if request.param == "nvcc":
        monkeypatch.setattr(toolchain, "nvrtc", lambda: None)
    return request.param


@pytest.mark.toolchain
@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90"])
def test_a_cubin(compiler, target):
    compiled = toolchain.compile_source(source(), parse_target(target))
    assert compiled.binary.startswith(b"\x7fELF")
    assert b"scale" in compiled.binary
    assert compiled.compiler.startswith(compiler)


@pytest.mark.toolchain
def test_flags_of_the_author_reach_the_compiler(compiler):
    text = TEXT.replace("2.0f", "FACTOR")
    flags = ["-O3", "-DFACTOR=3.0f", "-Wno-deprecated-declarations", "--expt-relaxed-constexpr"]
    assert toolchain.compile_source(source(text), parse_target("cuda:sm_80"), flags).binary


@pytest.mark.toolchain
@pytest.mark.parametrize(
    "flags",
    [
        ["--ptxas-options=-v,--register-usage-level=10"],
        ["-Xptxas", "-v,-dlcm=cg"],
        ["-Xptxas=-v", "-Xptxas=-O2"],
    ],
    ids=" ".join,
)
def test_several_options_for_ptxas_in_one_flag(compiler, flags):
    compiled = toolchain.compile_source(source(), parse_target("cuda:sm_80"), flags)
    assert "registers" in compiled.log


@pytest.mark.toolchain
def test_an_error_names_the_python_line_and_shows_the_generated_one(compiler):
    broken = source(TEXT.replace("B[i] =", "C[i] ="))
    with pytest.raises(ToolchainError) as raised:
        toolchain.compile_source(broken, parse_target("cuda:sm_80"))
    text = str(raised.value)
    assert "refused the source generated for scale. This is a bug of the compiler, not of the kernel." in text
    assert 'Python line 23, generated line 4: identifier "C" is undefined' in text
    assert "if (i < n) C[i] = __half2float(A[i]) * 2.0f;" in text


def test_hopper_and_blackwell_get_their_specific_instructions():
    names = {
        t: toolchain.code_name(parse_target(t))
        for t in ("cuda:sm_80", "cuda:sm_89", "cuda:sm_90", "cuda:sm_100")
    }
    assert list(names.values()) == ["sm_80", "sm_89", "sm_90a", "sm_100a"]


def test_nothing_to_compile_with(monkeypatch):
    monkeypatch.setattr(toolchain, "nvrtc", lambda: None)
    monkeypatch.setattr(toolchain, "nvcc", lambda: None)
    with pytest.raises(ToolchainError, match="install the NVRTC wheels with pip install"):
        toolchain.compile_source(source(), parse_target("cuda:sm_80"))


def test_a_compiler_newer_than_the_driver_is_passed_over(monkeypatch):
    if toolchain.nvrtc() is None:
        pytest.skip("nvrtc is not installed")
    monkeypatch.setattr(toolchain, "driver_version", lambda: (11, 8))
    assert toolchain.nvrtc.__wrapped__() is None
    monkeypatch.setattr(toolchain, "driver_version", lambda: (13, 0))
    assert toolchain.nvrtc.__wrapped__() is not None


INCLUDES = """#include <cstdint>
#include <stddef.h>
#include <type_traits>
#include <climits>
extern "C" __global__ void scale(const unsigned* A, unsigned* B) {
  uint8_t low = A[threadIdx.x] & UCHAR_MAX;
  std::uint64_t wide = low;
  size_t place = threadIdx.x;
  static_assert(std::is_same<std::uint64_t, decltype(wide)>::value, "");
  uint32_t word = static_cast<uint32_t>(wide);
  __builtin_memcpy(&B[place], &word, sizeof(word));
}
"""


@pytest.mark.toolchain
def test_headers_of_the_standard_library(compiler):
    compiled = toolchain.compile_source(source(INCLUDES), parse_target("cuda:sm_80"))
    assert compiled.binary.startswith(b"\x7fELF")


@pytest.mark.toolchain
def test_a_header_of_the_author_that_misses_another_is_named(compiler, tmp_path):
    header = tmp_path / "mine.h"
    header.write_text("\n#include <nowhere_to_be_found.h>\n")
    with pytest.raises(ToolchainError) as raised:
        toolchain.compile_source(source(), parse_target("cuda:sm_80"), ["-include", str(header)])
    assert "bug of the compiler" not in str(raised.value)
    assert "nowhere_to_be_found.h" in str(raised.value)


@pytest.mark.toolchain
def test_headers_that_only_nvcc_can_read(tmp_path):
    if toolchain.nvrtc() is None or toolchain.nvcc() is None:
        pytest.skip("needs both compilers")
    header = tmp_path / "mine.h"
    header.write_text(
        "#include <cstdlib>\n#include <vector>\nstatic const int factor = sizeof(std::vector<int>);\n"
    )
    flags = ["-include", str(header)]
    compiled = toolchain.compile_source(source(), parse_target("cuda:sm_80"), flags)
    assert compiled.compiler == "nvcc"
    with pytest.raises(ToolchainError, match="NVRTC for sm_80"):
        toolchain.compile_source(source(TEXT + "int x = y;"), parse_target("cuda:sm_80"), flags)
