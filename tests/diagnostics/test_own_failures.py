"""What is our own failure and what is the kernel's: internal-error, analysis-failed, and neither."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analysis.kernels import check, gemm, problems
from tilelang.analysis import check as checks
from tilelang.arch.target import parse_target
from tilelang.cli.check_file import CheckTask, lost
from tilelang.diagnostics.problem import Severity
from tilelang.facts.project import Project
from tilelang.ops.registry import TILE_OPS

KERNEL = """
    @tilelang.jit
    def k(A):
        A: T.Tensor((128,), T.float32)
        with T.Kernel(1, threads=128) as bx:
            {statement}
            A[0] = 0
    """


def test_a_tile_operation_whose_verification_fails_is_said(monkeypatch: pytest.MonkeyPatch):
    def verify(record, context):
        raise LookupError("no such table")
        yield

    monkeypatch.setattr(checks, "TILE_OPS", {**TILE_OPS, "copy": replace(TILE_OPS["copy"], verify=verify)})
    found = problems(gemm(clear=False))
    assert [p.rule for p in found] == ["internal-error", "uninitialised-accumulator"]
    assert "LookupError: no such table" in found[0].message and found[0].severity is Severity.HINT


def test_what_python_raises_at_trace_time_is_the_kernels_own():
    (found,) = problems(KERNEL.format(statement="x = 1 // 0"))
    assert (found.rule, found.severity) == ("python-error", Severity.ERROR)


def test_what_is_nested_too_deeply_is_a_limit_and_no_failure(monkeypatch: pytest.MonkeyPatch):
    def check_of_depth(subject):
        raise RecursionError
        yield

    monkeypatch.setattr(checks, "CHECKS", (check_of_depth,))
    assert [p.rule for p in problems(gemm())] == ["step-limit"]


def test_a_file_whose_process_died_is_told_at_its_first_line():
    task = CheckTask("dies.py", "", parse_target("cuda:sm_90"), Project())
    (problem,) = lost(task, "ended by signal 11").problems
    assert (problem.rule, problem.severity, problem.span.line) == ("analysis-failed", Severity.WARNING, 1)
    assert "dies.py could not be analysed" in problem.message and "ended by signal 11" in problem.message


def test_a_file_that_is_no_python_is_the_authors_own():
    assert [p.rule for p in check("def k(:\n").all_problems()] == ["syntax-error"]
