"""Kernels as text, and how tests check them."""

from __future__ import annotations

import textwrap

from tilelang.analysis.check import check_source
from tilelang.diagnostics.problem import Edit, Fix, Problem
from tilelang.facts.reports import FileReport

PRELUDE = "import tilelang\nimport tilelang.language as T\n\n\n"


def source(body: str) -> str:
    """A module with the two imports and `body`."""
    return PRELUDE + textwrap.dedent(body).lstrip("\n")


def check(body: str, target: str = "cuda:sm_90") -> FileReport:
    return check_source("kernel.py", source(body), target)


def problems(body: str, target: str = "cuda:sm_90") -> list[Problem]:
    return check(body, target).all_problems()


def gemm(
    a: str = "T.alloc_shared((64, 64), T.float16)",
    b: str = "T.alloc_shared((64, 64), T.float16)",
    c: str = "T.alloc_fragment((64, 64), T.float32)",
    call: str = "T.gemm(a, b, c)",
    clear: bool = True,
) -> str:
    """A kernel with one gemm, of which the parts can be changed."""
    lines = [
        "@tilelang.jit",
        "def k(A, B, C):",
        "    A: T.Tensor((64, 64), T.float16)",
        "    B: T.Tensor((64, 64), T.float16)",
        "    C: T.Tensor((64, 64), T.float32)",
        "    with T.Kernel(1, threads=128) as bx:",
        f"        a = {a}",
        f"        b = {b}",
        f"        c = {c}",
        "        T.copy(A[0, 0], a)",
        "        T.copy(B[0, 0], b)",
        *(["        T.clear(c)"] if clear else []),
        f"        {call}",
        "        T.copy(c, C[0, 0])",
    ]
    return "\n".join(lines) + "\n"


def fixed(text: str, fix: Fix) -> str:
    """The text after the edits of a fix; columns count code points from 1."""
    lines = text.split("\n")
    for edit in sorted(fix.edits, key=lambda e: e.span, reverse=True):
        _apply(lines, edit)
    return "\n".join(lines)


def _apply(lines: list[str], edit: Edit) -> None:
    span = edit.span
    before = lines[span.line - 1][: span.column - 1]
    after = lines[span.end_line - 1][span.end_column - 1 :]
    lines[span.line - 1 : span.end_line] = (before + edit.new_text + after).split("\n")
