"""Mistakes in macros and helpers say which call led to them; those in another file are shown at that call."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilelang.analysis.check import check_source
from tilelang.diagnostics.problem import CALLED_HERE, Problem

HELPERS = """
import tilelang.language as T

@T.macro
def square(s, m, n):
    for i, j in T.Parallel(m, n):
        s[i, j] = s[i, j] * 2

@T.macro
def twice(s, n):
    square(s, n, n)
    square(s, n, n)
"""
KERNEL = """
@tilelang.jit
def k(A):
    A: T.Tensor((64, 32), T.float32)
    with T.Kernel(1, threads=128):
        s = T.alloc_shared((64, 32), T.float32)
        T.copy(A, s)
        square(s, 64, 32)
        twice(s, 64)
        T.copy(s, A)
"""
ALONE = f"import tilelang\n{HELPERS}{KERNEL}"
BESIDE = f"import tilelang\nimport tilelang.language as T\nfrom helpers import square, twice\n{KERNEL}"


def problems(path: str | Path, text: str) -> list[Problem]:
    return [
        p
        for p in check_source(str(path), text, "cuda:sm_90").all_problems()
        if p.rule == "index-out-of-bounds"
    ]


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def calls(problem: Problem) -> list[int]:
    return [r.span.line for r in problem.related if r.message == CALLED_HERE]


def test_the_call_that_is_wrong_is_named_and_the_calls_around_it():
    """`square` is called three times; with 64 columns first in `twice`."""
    found = problems("alone.py", ALONE)
    assert found and {p.span.line for p in found} == {line_of(ALONE, "s[i, j] = ")}
    for problem in found:
        assert calls(problem) == [line_of(ALONE, "square(s, n, n)"), line_of(ALONE, "twice(s, 64)")]


def test_a_place_in_the_kernel_itself_has_no_calls():
    text = ALONE.replace("twice(s, 64)", "for i in T.Parallel(64):\n            s[i, 32] = 0")
    (found,) = problems("alone.py", text)
    assert calls(found) == []


def test_a_factory_around_the_kernel_is_no_call_of_it():
    text = """import tilelang
import tilelang.language as T

def make(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((n,), "float32")
            T.copy(A, s)
            for i in T.Parallel(n):
                A[i] = s[i + 1]
    return main

kernel = tilelang.compile(make(128))
"""
    (found,) = problems("factory.py", text)
    assert calls(found) == []


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    (tmp_path / "helpers.py").write_text(HELPERS, encoding="utf-8")
    return tmp_path / "kernel.py"


def test_another_file_is_named_and_the_call_is_where_one_looks(beside: Path):
    for problem in problems(beside, BESIDE):
        assert Path(problem.span.path).name == "helpers.py"
        assert problem.seen_from(problem.span.path) is problem
        seen = problem.seen_from(str(beside))
        assert seen.span.path == str(beside) and seen.span.line == line_of(BESIDE, "twice(s, 64)")
        assert seen.message.startswith(f"in helpers.py, line {problem.span.line}: ")
        assert seen.related[0].span == problem.span and seen.rule == problem.rule


def test_what_cannot_be_seen_from_a_file_stays(beside: Path):
    (first, *_) = problems(beside, BESIDE)
    assert first.seen_from("elsewhere.py") is first


def test_it_is_silenced_where_it_stands_or_at_the_call(beside: Path):
    comment = "  # tilelang: ignore[index-out-of-bounds]"
    assert problems(beside, BESIDE)
    assert not problems(beside, BESIDE.replace("twice(s, 64)", f"twice(s, 64){comment}"))
    (beside.parent / "helpers.py").write_text(HELPERS.replace("* 2", f"* 2{comment}"), encoding="utf-8")
    assert not problems(beside, BESIDE)


def test_a_comment_on_the_same_line_of_the_wrong_file_silences_nothing(beside: Path):
    lines = BESIDE.split("\n")
    at = line_of(HELPERS, "s[i, j] = ") - 1
    lines[at] += "  # tilelang: ignore[index-out-of-bounds]"
    assert problems(beside, "\n".join(lines))
