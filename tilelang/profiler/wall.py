"""The time of a function by the clock alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from tilelang.profiler.bench import ReturnMode, summary


def bench_with_wall(
    fn: Callable[[], Any],
    n_repeat: int,
    quantiles: Sequence[float] | None = None,
    return_mode: ReturnMode = "mean",
    synchronize: Callable[[], Any] | None = None,
) -> float | list[float]:
    """Milliseconds of each of `n_repeat` calls, as one number or as `quantiles`.

    synchronize: called after each of them, inside its time.
    """
    times = []
    for _ in range(n_repeat):
        start = time.perf_counter()
        fn()
        if synchronize is not None:
            synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    return summary(times, quantiles, return_mode)
