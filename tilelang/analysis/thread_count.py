"""thread-count: more threads than a block may have."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tilelang.analysis.subject import Subject
from tilelang.arch.tables import features, limits
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.resource import THREAD_COUNT


def check(subject: Subject) -> Iterator[Problem]:
    """On the CPU threads vanish, so there is no limit. That warps are whole is a matter of T.gemm."""
    if not features(subject.target).spreads_blocks:
        return
    limit = limits(subject.target).threads
    for launch in subject.program.launches():
        if launch.threads is not None and prod(launch.threads) > limit:
            yield THREAD_COUNT.at(
                launch.span, threads=prod(launch.threads), limit=limit, target=subject.target
            )
