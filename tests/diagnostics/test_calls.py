"""Mistakes in macros and helpers say which call led to them; those in another file are shown at that call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilelang.analysis.check import check_source
from tilelang.cli.main import main
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


SHARED_MACRO = """
import tilelang
import tilelang.language as T

@T.macro
def zero(s):
    T.clera(s)

@T.macro
def shift(s, n):
    for i in T.Parallel(n):
        s[i] = s[i + 8]

@tilelang.jit
def one(A):
    A: T.Tensor((64,), T.float32)
    with T.Kernel(1, threads=64):
        s = T.alloc_shared((64,), T.float32)
        zero(s)
        shift(s, 64)
        T.copy(s, A)

@tilelang.jit
def two(A):
    A: T.Tensor((32,), T.float32)
    with T.Kernel(1, threads=32):
        t = T.alloc_shared((32,), T.float32)
        zero(t)
        shift(t, 32)
        T.copy(t, A)
"""


def test_what_a_macro_shows_to_each_caller_is_told_once():
    """The words may name the tile of the first caller; every call stands beside it."""
    found = check_source("k.py", SHARED_MACRO, "cuda:sm_90").all_problems()
    by_rule = {p.rule: p for p in found if p.severity.value in ("error", "warning")}
    assert len([p for p in found if p.rule in by_rule]) == len(by_rule) == 3
    assert calls(by_rule["unknown-language-name"]) == [19, 28]
    assert calls(by_rule["index-out-of-bounds"]) == [20, 29]


def test_a_macro_of_another_file_is_told_once_for_all_files(tmp_path, capsys):
    (tmp_path / "lib.py").write_text(SHARED_MACRO[: SHARED_MACRO.index("@tilelang.jit")])
    body = SHARED_MACRO[SHARED_MACRO.index("@tilelang.jit") :]
    for name in ("a.py", "b.py"):
        head = "import tilelang\nimport tilelang.language as T\nfrom lib import shift, zero\n\n"
        (tmp_path / name).write_text(head + body)
    assert main(["check", "--format", "json", "--jobs", "1", str(tmp_path)]) == 1
    told = json.loads(capsys.readouterr().out)
    found = [p for p in told if p["code"] == "unknown-language-name"]
    assert len(found) == 1 and found[0]["path"].endswith("lib.py")
    beside = {r["path"][-4:] for r in found[0]["related"]}
    assert beside == {"a.py", "b.py"}


def test_no_edit_is_made_of_text_that_stands_in_another_file(tmp_path):
    """The macro's T.gemm stands where the kernel's own file has something else."""
    macro = "@T.macro\ndef product(a, b, acc):\n    T.gemm(a, b, acc)\n"
    (tmp_path / "lib.py").write_text("import tilelang.language as T\n" + "\n" * 8 + macro)
    text = """import tilelang
import tilelang.language as T
from lib import product


@tilelang.jit
def k(A, B, C):
    A: T.Tensor((64, 64), T.float16)
    B: T.Tensor((64, 64), T.float16)
    C: T.Tensor((64, 64), T.float32)
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.copy(A, a)
        product(a, a, c)
        T.copy(c, C)
"""
    found = check_source(str(tmp_path / "use.py"), text, "cuda:sm_90").all_problems()
    (problem,) = [p for p in found if p.rule == "uninitialised-accumulator"]
    edits = [e.new_text.strip() for f in problem.fixes for e in f.edits]
    assert edits in ([], ["T.clear(c)"])
