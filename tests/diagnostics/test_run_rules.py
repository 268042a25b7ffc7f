"""run-failed and run-mismatch: what a run of the editor leaves at the kernel, and what it leaves not."""

from __future__ import annotations

from tilelang.diagnostics.problem import Problem, Severity
from tilelang.diagnostics.span import Span
from tilelang.facts.reports import RunCase, RunResult
from tilelang_lsp.ide.run_report import run_problem

KERNEL = Span("k.py", 4, 5, 4, 11)
RIGHT = RunCase((("N", 4096),), True, 0.001, 0.0, (0.01, 0.02))
WRONG = RunCase((("N", 1000),), False, 3.0, 0.5, (0.01, 0.02), 232, 1000, (768,), 0.0, 1.5, "...#")


def left_by(
    passed: bool, *cases: RunCase, error: str | None = None, at: Span | None = None
) -> Problem | None:
    result = RunResult(
        "double", passed, "CPU (no GPU found)", "ref_double", cases, error=error, error_span=at
    )
    return run_problem(result, KERNEL)


def test_an_error_without_a_place_stands_at_the_kernels_name():
    found = left_by(False, error="the run took longer than 60 s and was ended")
    assert found is not None and (found.rule, found.severity) == ("run-failed", Severity.ERROR)
    assert found.span == KERNEL and "longer than 60 s" in found.message


def test_an_error_stands_where_it_was_raised_and_is_told_in_full():
    raised = Span("k.py", 30, 1, 30, 20)
    found = left_by(False, RIGHT, error="ValueError: no weights\n  raised by load()", at=raised)
    assert found is not None and found.rule == "run-failed" and found.span == raised
    assert found.message.endswith("ValueError: no weights\n  raised by load()")


def test_a_run_that_differs_has_not_failed():
    found = left_by(False, WRONG)
    assert found is not None and found.rule == "run-mismatch"


def test_the_first_wrong_sizes_are_told_and_the_right_ones():
    found = left_by(False, RIGHT, WRONG)
    assert found is not None and found.rule == "run-mismatch" and found.span == KERNEL
    assert "232 of 1000 values wrong for N=1000, first at [768]: 0 instead of 1.5" in found.message
    assert "It is right for N=4096." in found.message and "...#" in found.message


def test_a_run_that_could_not_compare_is_no_mismatch():
    found = left_by(False, WRONG, error="the reference raised ZeroDivisionError")
    assert found is not None and found.rule == "run-failed"


def test_a_run_within_its_tolerance_leaves_nothing():
    assert left_by(True, RIGHT) is None
