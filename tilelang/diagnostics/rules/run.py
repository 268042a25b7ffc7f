"""What running a kernel from the editor shows; no check of the text alone reports these."""

from __future__ import annotations

from tilelang.diagnostics.problem import Severity
from tilelang.diagnostics.rule import Rule

RUN_MISMATCH = Rule(
    "run-mismatch",
    "run",
    Severity.ERROR,
    "The kernel was run from the editor, and its results differ from the reference's.",
    "{kernel} differs from {reference} on {device}: {mismatch}{details}",
)

RUN_FAILED = Rule(
    "run-failed",
    "run",
    Severity.ERROR,
    "The kernel was to be run from the editor, and the run ended with an error.",
    "{error}",
)
