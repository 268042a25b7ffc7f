"""What a tile function computes and moves, counted from its T.gemm and T.copy, and the least time for it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.ops.copy import Copy
from tilelang.ops.gemm_sp import gemm_of
from tilelang.passes.walk import bits_of, children, constant


@dataclass(frozen=True)
class AnalysisResult:
    """Work of one launch, and the shortest time that the device's peaks allow it (infinite without a peak).

    estimated_time in seconds; expected_tflops and expected_bandwidth_GBps are what that time means.
    """

    total_flops: int
    total_global_bytes: int
    estimated_time: float
    expected_tflops: float | None
    expected_bandwidth_GBps: float | None


class Analyzer:
    """Counts the work of a tile function. Loops and grids with run-time extents are refused."""

    def __init__(self, fn: Any, device: Any) -> None:
        self.fn = fn
        self.device = device
        self.total_flops = 0
        self.total_global_bytes = 0

    @classmethod
    def analysis(cls, fn: Any, device: Any) -> AnalysisResult:
        """The work of `fn` (a tile function, as `kernel.get_tir()` returns it) on `device`.

        device: an architecture of `tilelang.carver.arch`. Raises ValueError for a loop whose number of turns
        is known at launch only.
        """
        return cls(fn, device).ir_pass().calculate()

    def ir_pass(self) -> Analyzer:
        """Count."""
        for stmt, times in _turns(self.fn.body, 1):
            value = getattr(stmt, "value", None)
            if (gemm := gemm_of(value)) is not None:
                self.total_flops += 2 * math.prod(gemm.shape) * times
            elif tile_ops.is_call(value, tile_ops.COPY):
                copy = Copy.read(value)
                for region in (copy.src, copy.dst):
                    if region.source.scope() == "global":
                        elements = math.prod(_extent(r.extent, stmt) for r in region.region)
                        self.total_global_bytes += elements * bits_of(str(region.source.dtype)) // 8 * times
        return self

    def calculate(self) -> AnalysisResult:
        """The result of the counts so far."""
        flops, bandwidth = self.device.peak_tflops, self.device.bandwidth_gbps
        parts = []
        if flops:
            parts.append(self.total_flops / (flops * 1e12))
        if bandwidth:
            parts.append(self.total_global_bytes / (bandwidth * 1e9))
        time = max(parts) if len(parts) == 2 else math.inf
        known = 0 < time < math.inf
        return AnalysisResult(
            self.total_flops,
            self.total_global_bytes,
            time,
            self.total_flops / time / 1e12 if known else None,
            self.total_global_bytes / time / 1e9 if known else None,
        )


def _turns(stmt: Any, times: int) -> Iterator[tuple[Any, int]]:
    """Every statement and how often it is done in one launch."""
    yield stmt, times
    inner = times
    if isinstance(stmt, X.For):
        inner = times * _extent(stmt.extent, stmt)
    elif isinstance(stmt, X.AttrStmt) and str(stmt.node.thread_tag).startswith("blockIdx"):
        inner = times * _extent(stmt.value, stmt)
    for child in children(stmt):
        yield from _turns(child, inner)


def _extent(value: Any, stmt: Any) -> int:
    number = value if isinstance(value, int) else constant(value)
    if number is None:
        line = "" if stmt.span is None else f" at line {stmt.span.line}"
        raise ValueError(f"the extent {value}{line} is known at launch only: give the sizes as constants")
    return number
