"""Times a function: CUDA events with a cold L2 cache on the GPU, the wall clock on the CPU. Milliseconds."""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

Backend = Literal["auto", "event", "cudagraph", "cupti", "wall"]
ReturnMode = Literal["mean", "median", "min", "max"]


class BenchArgumentError(ValueError, AssertionError):
    """An argument of `do_bench` that says nothing it knows; an AssertionError too, as the release has it."""


_TRIALS = 5  # runs that estimate how many make up the asked time


@overload
def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    _n_warmup: int = 0,
    _n_repeat: int = 0,
    quantiles: None = None,
    fast_flush: bool = True,
    backend: Backend = "auto",
    return_mode: ReturnMode = "mean",
    device: Any = None,
    cache_size: int = 256,
    early_stop_baseline: float | None = None,
) -> float: ...
@overload
def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    _n_warmup: int = 0,
    _n_repeat: int = 0,
    *,
    quantiles: Sequence[float],
    fast_flush: bool = True,
    backend: Backend = "auto",
    return_mode: ReturnMode = "mean",
    device: Any = None,
    cache_size: int = 256,
    early_stop_baseline: float | None = None,
) -> list[float]: ...
@overload
def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    _n_warmup: int = 0,
    _n_repeat: int = 0,
    quantiles: Sequence[float] | None = None,
    fast_flush: bool = True,
    backend: Backend = "auto",
    return_mode: ReturnMode = "mean",
    device: Any = None,
    cache_size: int = 256,
    early_stop_baseline: float | None = None,
) -> float | list[float]: ...
def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    _n_warmup: int = 0,
    _n_repeat: int = 0,
    quantiles: Sequence[float] | None = None,
    fast_flush: bool = True,
    backend: Backend = "auto",
    return_mode: ReturnMode = "mean",
    device: Any = None,
    cache_size: int = 256,
    early_stop_baseline: float | None = None,
) -> float | list[float]:
    """Milliseconds per call of `fn`, or their `quantiles`.

    warmup, rep: how long to warm up and to measure, in milliseconds; _n_warmup, _n_repeat fix the numbers of
    calls instead (0: by time).
    backend: `event` measures CUDA events, `cudagraph` a captured graph (no launch overhead), `wall` the
    clock; `auto` takes events where a GPU is, else the clock. `cupti` is an alias of `event`.
    cache_size: megabytes written between calls so that none finds its inputs in the L2 cache; fast_flush
    writes them as int32 instead of bytes. device: the GPU, default torch's current one.
    early_stop_baseline: milliseconds; a function that the trial calls show to be slower is not measured any
    further, and the trial's time is the answer. Raises ValueError for another backend or return_mode.
    """
    if quantiles is None and return_mode not in _REDUCE:
        raise BenchArgumentError(f"Invalid return_mode: {return_mode}; write one of {', '.join(_REDUCE)}")
    if any(not 0 <= q <= 1 for q in quantiles or ()):
        raise BenchArgumentError(f"Invalid quantiles: {list(quantiles or ())}; each is between 0 and 1")
    chosen = _choose(backend)
    counts = (_n_warmup or None, _n_repeat or None)
    with _on(device) if device is not None and chosen != "wall" else contextlib.nullcontext():
        fn()
        if chosen == "wall":
            times = _wall(fn, warmup, rep, *counts, early_stop_baseline)
        elif chosen == "cudagraph":
            times = _graph(fn, rep, counts[1])
        else:
            flush = _Flush(cache_size, fast_flush)
            times = _events(fn, warmup, rep, *counts, flush, early_stop_baseline)
    return summary(times, quantiles, return_mode)


def summary(
    times: list[float], quantiles: Sequence[float] | None, return_mode: ReturnMode
) -> float | list[float]:
    """Some times as one number, or as their quantiles."""
    if quantiles is not None:
        return [_quantile(times, q) for q in quantiles]
    return _REDUCE[return_mode](times)


@dataclass(frozen=True)
class _Flush:
    """What is written between timed calls."""

    megabytes: int
    as_words: bool

    def buffer(self) -> Any:
        import torch

        size = max(self.megabytes * 1024 * 1024, 4)
        if self.as_words:
            return torch.empty(size // 4, dtype=torch.int32, device="cuda")
        return torch.empty(size, dtype=torch.int8, device="cuda")


def _on(device: Any) -> Any:
    import torch

    return torch.cuda.device(device)


_REDUCE: dict[str, Callable[[list[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "min": min,
    "max": max,
}


_BACKENDS = ("auto", "event", "cupti", "cudagraph", "wall")


def _choose(backend: Backend) -> str:
    if backend not in _BACKENDS:
        raise ValueError(f"Unknown profiler backend: {backend}; write one of {', '.join(_BACKENDS)}")
    if backend != "auto":
        return _on_gpu(backend)
    try:
        import torch
    except ImportError:
        return "wall"
    return "event" if torch.cuda.is_available() else "wall"


def _on_gpu(backend: str) -> str:
    """A backend that was asked for. Raises RuntimeError if it needs a GPU and there is none."""
    if backend == "wall":
        return backend
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError(
            f"the profiler's backend {backend} measures on a GPU, and torch sees none here; "
            f"take 'auto' or 'wall'"
        )
    return "event" if backend == "cupti" else backend


def _counts(
    each: float, warmup: float, rep: float, n_warmup: int | None, n_repeat: int | None
) -> tuple[int, int]:
    each = max(each, 1e-4)
    return (
        max(1, int(warmup / each)) if n_warmup is None else n_warmup,
        max(1, int(rep / each)) if n_repeat is None else n_repeat,
    )


def _wall(
    fn: Callable[[], Any],
    warmup: float,
    rep: float,
    n_warmup: int | None,
    n_repeat: int | None,
    baseline: float | None,
) -> list[float]:
    started = time.perf_counter()
    fn()
    each = (time.perf_counter() - started) * 1e3
    if baseline is not None and each > baseline:
        return [each]
    warm, repeat = _counts(each, warmup, rep, n_warmup, n_repeat)
    for _ in range(warm):
        fn()
    times = []
    for _ in range(repeat):
        started = time.perf_counter()
        fn()
        times.append((time.perf_counter() - started) * 1e3)
    return times


def _events(
    fn: Callable[[], Any],
    warmup: float,
    rep: float,
    n_warmup: int | None,
    n_repeat: int | None,
    flush: _Flush,
    baseline: float | None,
) -> list[float]:
    import torch

    cold = flush.buffer()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    for _ in range(_TRIALS):
        cold.zero_()
        fn()
    end.record()
    torch.cuda.synchronize()
    warm, repeat = _counts(start.elapsed_time(end) / _TRIALS, warmup, rep, n_warmup, n_repeat)
    if baseline is not None:
        cold.zero_()
        start.record()
        fn()
        end.record()
        torch.cuda.synchronize()
        if start.elapsed_time(end) > baseline:
            return [start.elapsed_time(end)]
    for _ in range(warm):
        fn()
    starts = [torch.cuda.Event(enable_timing=True) for _ in range(repeat)]
    ends = [torch.cuda.Event(enable_timing=True) for _ in range(repeat)]
    for begin, finish in zip(starts, ends, strict=True):
        cold.zero_()
        begin.record()
        fn()
        finish.record()
    torch.cuda.synchronize()
    return [b.elapsed_time(e) for b, e in zip(starts, ends, strict=True)]


def _graph(fn: Callable[[], Any], rep: float, n_repeat: int | None) -> list[float]:
    """Ten measurements of a captured graph that holds many calls."""
    import torch

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        fn()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(_TRIALS):
            fn()
        end.record()
        torch.cuda.synchronize()
        _, calls = _counts(start.elapsed_time(end) / _TRIALS, 1, rep, 1, n_repeat)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(calls):
                fn()
        times = []
        for _ in range(10):
            start.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end) / calls)
    return times


def _quantile(times: list[float], q: float) -> float:
    """Linear interpolation between the two nearest ranks, as torch.quantile does."""
    ordered = sorted(times)
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@contextlib.contextmanager
def suppress_stdout_stderr() -> Iterator[None]:
    """Nothing that is written inside the `with` block is seen, C code's output included."""
    kept = [os.dup(number) for number in (1, 2)]
    with open(os.devnull, "w") as nowhere:
        for number in (1, 2):
            os.dup2(nowhere.fileno(), number)
        try:
            with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
                yield
        finally:
            for number, place in zip((1, 2), kept, strict=True):
                os.dup2(place, number)
                os.close(place)
