"""Hints about work that is done for nothing."""

from __future__ import annotations

from tilelang.diagnostics.problem import Severity
from tilelang.diagnostics.rule import Rule

NEVER_READ = Rule(
    "never-read",
    "performance",
    Severity.HINT,
    "A tile that is written and never read can go.",
    "{buffer} is written but never read",
)
NEVER_USED = Rule(
    "never-used",
    "performance",
    Severity.HINT,
    "A tile that is never touched can go.",
    "{buffer} is allocated but never used",
)
