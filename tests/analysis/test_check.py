"""Checking kernels and files: specialisations, undecided branches, ignore comments, failing checks, time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.analysis.kernels import check, gemm, problems, source
from tests.quickstart import KERNEL
from tilelang.analysis import check as checks
from tilelang.analysis.check import check_source
from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Problem, Severity
from tilelang.frontend.environments.specialise import trace_static
from tilelang.frontend.environments.static_module import StaticModule

TILED = """
@tilelang.jit
def k(A, B, C, BM: int = 64):
    A: T.Tensor((64, 64), T.float16)
    B: T.Tensor((64, 64), T.float16)
    C: T.Tensor((64, 64), T.float32)
    with T.Kernel(1, threads=64) as bx:
        a = T.alloc_shared((BM, 64), T.float16)
        b = T.alloc_shared((64, 64), T.float16)
        c = T.alloc_fragment((BM, 64), T.float32)
        T.copy(A[0, 0], a)
        T.copy(B, b)
        T.clear(c)
        T.gemm(a, b, c)
        T.copy(c, C[0, 0])
"""


def test_problem_in_some_specialisations_is_a_warning_that_names_one():
    body = TILED + "\n\ndef main(a, b, c):\n    k(a, b, c, BM=64)\n    k(a, b, c, BM=40)\n"
    (found,) = problems(body)
    assert (found.rule, found.severity) == ("gemm-tile", Severity.WARNING)
    assert found.message.startswith("with BM=40: M of the tile (a) is 40")


def test_problem_in_all_specialisations_stays_an_error():
    body = TILED + "\n\ndef main(a, b, c):\n    k(a, b, c, BM=8)\n    k(a, b, c, BM=40)\n"
    (found,) = problems(body)
    assert (found.rule, found.severity) == ("gemm-tile", Severity.ERROR)


def test_choice_decides_the_facts():
    module = StaticModule("kernel.py", source(TILED))
    (kernel,) = module.kernels
    report = checks.check_kernel(module, kernel, "cuda:sm_90", {"BM": "32"})
    assert next(b for b in report.facts.buffers if b.name == "a").shape == (32, 64)
    assert report.facts.specialisation == (("BM", "32"),)
    assert report.problems == ()


def test_missing_tile_size_disables_what_needs_numbers_and_nothing_else():
    body = TILED.replace("BM: int = 64", "BM").replace("(BM, 64), T.float16", "(BM, 32), T.float16")
    (found,) = problems(body)
    assert found.message.startswith("K of a (?, 32) is 32, K of b (64, 64) is 64")


def test_problem_in_an_undecided_branch_is_a_hint():
    body = """
    @tilelang.jit
    def k(A, flag):
        A: T.Tensor((8,), T.float32)
        with T.Kernel(1, threads=32) as bx:
            s = T.alloc_shared((8,), T.float32)
            T.copy(A, s)
            if flag:
                T.fill(s[6:12], 0)
            T.copy(s, A)
    """
    (found,) = problems(body)
    assert (found.rule, found.severity) == ("slice-out-of-bounds", Severity.HINT)


def test_ignore_comment_silences_and_an_unused_one_is_reported():
    silenced = gemm("T.alloc_shared((64, 32), T.float16)").replace(
        "T.gemm(a, b, c)", "T.gemm(a, b, c)  # tilelang: ignore[gemm-shape]"
    )
    assert problems(silenced) == []
    (unused,) = problems(gemm().replace("T.gemm(a, b, c)", "T.gemm(a, b, c)  # tilelang: ignore[gemm-shape]"))
    assert unused.rule == "unused-ignore"


USES_HELPER = """
from helper import fill


@tilelang.jit
def k(B):
    B: T.Tensor((4,), T.float32)
    with T.Kernel(1, threads=32):
        B[0] = 1{comment}
        fill(B)
"""


@pytest.mark.parametrize(
    ("here", "there", "silent"),
    [(False, False, False), (False, True, True), (True, False, False)],
)
def test_a_comment_silences_its_own_file_only(tmp_path: Path, here: bool, there: bool, silent: bool):
    comment = "  # tilelang: ignore[index-out-of-bounds]"
    kernel = source(USES_HELPER.format(comment=comment if here else ""))
    line = next(k for k, text in enumerate(kernel.split("\n"), 1) if "B[0]" in text)
    above = "import tilelang.language as T\n\n\n@T.macro\ndef fill(B):\n"
    helper = above + "\n" * (line - above.count("\n") - 1) + f"    B[7] = 1{comment if there else ''}\n"
    (tmp_path / "helper.py").write_text(helper, encoding="utf-8")
    (tmp_path / "kernel.py").write_text(kernel, encoding="utf-8")
    found = check_source(str(tmp_path / "kernel.py"), kernel, "cuda:sm_90").all_problems()
    problems = [p for p in found if p.rule == "index-out-of-bounds"]
    assert [(Path(p.span.path).name, p.span.line) for p in problems] == [("helper.py", line)] * (not silent)


def test_unknown_target_is_a_clear_error():
    with pytest.raises(ValueError, match="unknown target 'vulkan'"):
        check(gemm(), "vulkan")


def test_half_typed_file_reports_where_it_breaks():
    report = check("@tilelang.jit\ndef k(A:\n    pass\n")
    assert report.kernels == ()
    assert [p.rule for p in report.problems] == ["syntax-error"]


def test_failing_check_is_reported_and_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch):
    def broken(subject: Subject) -> Iterator[Problem]:
        raise ZeroDivisionError("nothing to divide")
        yield

    monkeypatch.setattr(checks, "CHECKS", (broken, *checks.CHECKS))
    found = problems(gemm(clear=False))
    assert [p.rule for p in found] == ["internal-error", "uninitialised-accumulator"]
    assert "ZeroDivisionError: nothing to divide" in found[0].message
    assert found[0].severity is Severity.HINT


def test_kernel_that_trips_the_compiler_leaves_the_others_of_its_file_alone(monkeypatch: pytest.MonkeyPatch):
    whole = checks.check_kernel

    def check_kernel(module, kernel, target, choice=None):
        if kernel.name == "broken":
            raise ValueError("not foreseen")
        return whole(module, kernel, target, choice)

    monkeypatch.setattr(checks, "check_kernel", check_kernel)
    body = gemm(clear=False) + "\n\n" + gemm().replace("def k(", "def broken(")
    report = check(body)
    assert [k.facts.name for k in report.kernels] == ["k"]
    assert [p.rule for p in report.all_problems()] == ["uninitialised-accumulator", "internal-error"]


def test_every_problem_survives_json():
    report = check(gemm("T.alloc_shared((64, 32), T.float16)", clear=False))
    assert len(report.all_problems()) == 2
    assert type(report).from_json(report.to_json()) == report


def test_checking_the_quickstart_takes_less_than_25_ms():
    """Of processor time, and the best of many: what others do on the machine is no matter of ours."""
    module = StaticModule("kernel.py", source(KERNEL))
    program = trace_static(module, module.kernels[0])
    times = []
    for _ in range(15):
        start = time.process_time()
        _, found = checks.check_program(program, "cuda:sm_90", module.text)
        times.append(time.process_time() - start)
    assert {p.severity for p in found} <= {Severity.HINT}
    assert min(times) < 0.025


def test_what_is_slow_in_some_specialisations_is_a_hint():
    body = """
    @tilelang.jit
    def k(A, B, C, BN: int = 64):
        A: T.Tensor((1024, 1024), T.float16)
        B: T.Tensor((1024, 1024), T.float16)
        C: T.Tensor((1024, 1024), T.float32)
        with T.Kernel(1024 // BN, 4, threads=128) as (bx, by):
            a = T.alloc_shared((256, 32), T.float16)
            b = T.alloc_shared((32, BN), T.float16)
            c = T.alloc_fragment((256, BN), T.float32)
            T.clear(c)
            for ko in T.Pipelined(32, num_stages=2):
                T.copy(A[by * 256, ko * 32], a)
                T.copy(B[ko * 32, bx * BN], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 256, bx * BN])


    def run(A, B, C):
        k(A, B, C, BN=64)
        k(A, B, C, BN=128)
    """
    found = [p for p in problems(body) if p.rule == "register-pressure"]
    assert [p.severity for p in found] == [Severity.HINT]
    assert found[0].message.startswith("with BN=128: the loop carries at least 256 registers")


PAIR = """
import tilelang
import tilelang.language as T

def kernels(M=512):
    @T.prim_func
    def first(A: T.Tensor((M,), "float32"), B: T.Tensor((M,), "float32")):
        with T.Kernel(T.ceildiv(M, 128), threads=128) as bx:
            s = T.alloc_shared((128,), "float32")
            T.copy(A[bx * 128], s)
            T.copy(s, B[bx * 128])

    @T.prim_func
    def second(A: T.Tensor((M,), "float32"), B: T.Tensor((M,), "float32")):
        with T.Kernel(T.ceildiv(M, 128), threads=128) as bx:
            s = T.alloc_shared((128,), "float32")
            f = T.alloc_fragment((64, 2), "float32")
            T.copy(A[bx * 128], s)
            T.copy(s, f)
            T.copy(f, B[bx * 128])

    return RESULT
"""


@pytest.mark.parametrize(
    "result",
    ["first, second", "[second, first]", "{'a': first, 'b': second}", "first if M > 4 else second"],
)
def test_each_kernel_that_a_factory_makes_is_checked(result: str):
    report = check_source("kernel.py", PAIR.replace("RESULT", result), "cuda")
    errors = [p for p in report.all_problems() if p.severity is Severity.ERROR]

    assert {p.span.line for p in errors} == {19, 20}


def test_of_a_kernel_that_a_factory_only_defines_warnings_are_kept_back():
    text = PAIR.replace("(64, 2)", "(128,)").replace(
        "            T.copy(A[bx * 128], s)\n            T.copy(s, f)\n", ""
    )

    both = check_source("kernel.py", text.replace("RESULT", "first, second"), "cuda").all_problems()
    one = check_source("kernel.py", text.replace("RESULT", "first"), "cuda").all_problems()

    assert "read-before-write" in {p.rule for p in both}
    assert one == []
