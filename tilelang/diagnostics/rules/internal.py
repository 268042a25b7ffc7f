"""What the compiler says about its own failures: never the user's mistake, never silent."""

from __future__ import annotations

from tilelang.diagnostics.problem import Severity
from tilelang.diagnostics.rule import Rule

INTERNAL_ERROR = Rule(
    "internal-error",
    "internal",
    Severity.HINT,
    "A check of the compiler failed on this kernel; all others were made.",
    "the check {check} failed on this kernel and its findings are missing ({error}); please report this",
)

ANALYSIS_FAILED = Rule(
    "analysis-failed",
    "internal",
    Severity.INFO,
    "The analysis of a kernel failed as a whole, so its hovers and checks are missing.",
    "{kernel} could not be analysed, its hovers and checks are missing: {failure}. "
    "This is a bug in tilelang-lsp, not in your kernel.",
)

FILE_LOST = Rule(
    "analysis-failed",
    "internal",
    Severity.INFO,
    "The analysis of a kernel failed as a whole, so its hovers and checks are missing.",
    "{file} could not be analysed, so nothing was checked in it: the process {why}. "
    "This is a bug in tilelang-lsp, not in your kernels.",
)
