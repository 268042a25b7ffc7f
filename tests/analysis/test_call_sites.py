"""What decorators say, what a dozen calls of a kernel ask for, and how a problem of some of them is told."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import tilelang
from tests.analysis.kernels import fixed, source
from tilelang.analysis.check import check_kernel, check_source
from tilelang.diagnostics.error import KernelError
from tilelang.frontend.environments.static_module import StaticModule


def test_a_backend_that_there_is_not_is_named():
    text = source(
        """
@tilelang.jit(execution_backend="nvrct")
def k(A):
    A: T.Tensor((64,), T.float32)
    with T.Kernel(1, threads=64):
        A[0] = 1
"""
    )
    (problem,) = check_source("k.py", text, "cuda:sm_90").all_problems()
    assert problem.rule == "bad-arguments" and 'no execution_backend "nvrct"' in problem.message
    assert check_source("k.py", fixed(text, problem.fixes[0]), "cuda:sm_90").all_problems() == []


def test_each_of_a_dozen_calls_is_checked():
    calls = "\n".join(f"k({64 * n})" for n in range(1, 12)) + "\nk(2048)\n"
    text = source(
        """
@tilelang.jit
def k(threads):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=threads):
            A[0] = 1

    return main


"""
    )
    (problem,) = check_source("k.py", text + calls, "cuda:sm_90").all_problems()
    assert problem.rule == "thread-count" and problem.message.startswith("with threads=2048: ")


def test_a_size_that_only_a_choice_gives_is_told():
    text = source(
        """
@tilelang.jit
def k(A):
    M, N = T.const("M, N")
    A: T.Tensor((M + N,), T.float32)
    with T.Kernel(1, threads=64):
        A[0] = 1
"""
    )
    module = StaticModule("k.py", text)
    report = check_kernel(module, module.kernels[0], "cuda:sm_90", {"M": "4", "N": "8"})
    found = [p.message for p in report.problems if p.rule == "const-unbound"]
    assert found and all(m.startswith("without M=4, N=8: ") for m in found)


def test_a_wrong_size_in_a_signature_has_one_place(tmp_path: Path):
    text = source(
        """
@T.prim_func
def k(A: T.Tensor((2**40,), "float32"), B: T.Tensor(shape=(2**41,), dtype="float32")):
    with T.Kernel(1, threads=64):
        A[0] = B[0]
"""
    )
    path = tmp_path / "signature.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("signature", path)
    assert spec is not None and spec.loader is not None
    with pytest.raises(KernelError) as raised:
        spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
        tilelang.compile(module.k, target="cpu")
    live = {(p.span.line, p.span.column, p.message) for p in raised.value.problems}
    static = check_source(str(path), text, "cpu").all_problems()
    assert len(live) == 2 and live == {(p.span.line, p.span.column, p.message) for p in static}
