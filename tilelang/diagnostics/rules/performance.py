"""Hints about work that is done for nothing."""

from __future__ import annotations

from dataclasses import replace

from tilelang.diagnostics.problem import Severity
from tilelang.diagnostics.rule import Rule

NEVER_READ = Rule(
    "never-read",
    "performance",
    Severity.HINT,
    "A tile that is never read can go.",
    "{buffer} is written but never read",
)
NEVER_USED = replace(NEVER_READ, message="{buffer} is allocated but never used")
