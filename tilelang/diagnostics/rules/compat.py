"""Rules about what one target has and another has not."""

from __future__ import annotations

from tilelang.diagnostics.problem import Severity
from tilelang.diagnostics.rule import Rule

CPU_THREAD_CODE = Rule(
    "cpu-thread-code",
    "compat",
    Severity.ERROR,
    "On the CPU a block runs as one thread, so a thread index has no meaning.",
    "`{thread}` is the index of a thread, but on the CPU target a block runs as one: "
    "write the loop over elements with T.Parallel",
)
