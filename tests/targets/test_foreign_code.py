"""Errors in what authors write in the target's own language: they are told where, and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cuda.kernels import lower_text
from tilelang.targets.cpu.toolchain import build as build_for_cpu
from tilelang.targets.cuda.toolchain import compile_source, explain, nvcc, nvrtc
from tilelang.targets.foreign_code import foreign_code
from tilelang.targets.toolchain_error import ToolchainError

needs_compiler = pytest.mark.skipif(
    nvrtc() is None and nvcc() is None, reason="neither NVRTC nor nvcc is installed"
)
KERNEL = '''
SOURCE = """{source}"""

@tilelang.jit
def k(A):
    A: T.Tensor((64,), "float32")
    B = T.empty((64,), "float32")
    with T.Kernel(1, threads=64):
        {imports}
        for i in T.Parallel(64):
            B[i] = T.call_extern("float32", "{name}", A[i])
    return B
'''


def lowered(name: str, source: str = "", target: str = "cuda:sm_80") -> Any:
    imports = "T.import_source(SOURCE)" if source else "pass"
    return lower_text(KERNEL.format(name=name, source=source, imports=imports), target)


def refused(name: str, source: str = "") -> str:
    """What the compiler of CUDA says."""
    made = lowered(name, source)
    with pytest.raises(ToolchainError) as error:
        compile_source(made.source, made.target, (), foreign_code(made))
    return str(error.value)


@needs_compiler
def test_a_function_that_nothing_declares() -> None:
    text = refused("my_exp")
    assert "Python line 14: T.call_extern calls my_exp, which nothing declares" in text
    assert "T.import_source" in text and "bug" not in text


@needs_compiler
def test_an_error_in_the_imported_text_names_its_line() -> None:
    text = refused("my_exp", "\n__device__ float my_exp(float x) {\n  return x + nowhere;\n}\n")
    assert 'line 3 of the text given to T.import_source: identifier "nowhere" is undefined' in text
    assert "return x + nowhere;" in text and "bug" not in text


@needs_compiler
def test_a_call_that_does_not_fit_the_declaration() -> None:
    text = refused("my_exp", "__device__ float my_exp(float x, int n) { return x + n; }")
    assert "Python line 14: T.call_extern of my_exp does not fit its declaration: too few arguments" in text


def test_other_errors_are_the_compiler_s() -> None:
    made = lowered("my_exp")
    number = next(k for k, line in enumerate(made.source.text.splitlines(), 1) if "threadIdx" in line)
    log = f"k.cu({number}): error: expected a ';'"
    text = explain(made.source, log, "NVRTC", foreign_code(made))
    assert "bug of the compiler" in text and f"generated line {number}: expected a ';'" in text


def test_the_cpu_calls_functions_of_c_and_refuses_what_is_not_there() -> None:
    assert build_for_cpu(lowered("expf", target="cpu")).binary
    with pytest.raises(ToolchainError, match=r"k, line \d+: T\.call_extern calls my_exp, which no library"):
        build_for_cpu(lowered("my_exp", target="cpu"))


def test_a_call_is_made_for_what_it_does_though_its_value_is_dropped() -> None:
    """`T.evaluate` takes any value; that of a foreign function may be beside the point."""
    text = KERNEL.replace('B[i] = T.call_extern("float32", "{name}", A[i])', "{call}")
    for call in ("T.evaluate({0})", "{0}"):
        made = call.format('T.call_extern("int32", "put", T.address_of(B[i]), A[i])')
        text_of = text.format(source="", imports="pass", call=made)
        assert "put(&B[tx], A[tx]);" in str(lower_text(text_of).source.text)


WAITS = """
@tilelang.jit
def k(A):
    A: T.Tensor((64,), "float32")
    with T.Kernel(1, threads=64):
        T.pdl_trigger()
        T.call_extern("void", "cudaGridDependencySynchronize")
        A[T.get_thread_binding()] += 1
        T.pdl_sync()
"""


@needs_compiler
def test_waits_for_the_kernel_before_have_the_names_that_cuda_gives_them() -> None:
    made = lower_text(WAITS, "cuda:sm_90")
    text = made.source.text
    assert text.count("cudaGridDependencySynchronize();") == 2  # T.pdl_sync, and by name
    assert text.count("cudaTriggerProgrammaticLaunchCompletion();") == 1
    assert "#include" not in text  # NVRTC finds no header of the device runtime's
    compile_source(made.source, made.target)
