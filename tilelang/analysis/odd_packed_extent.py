"""odd-packed-extent: a tensor of 4-bit elements whose rows would end in the middle of a byte."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.subject import Subject
from tilelang.arch.features import PACKED_DTYPES
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.shape import ODD_PACKED_EXTENT
from tilelang.ir.values import as_int
from tilelang.ops.operands import dtype_name


def check(subject: Subject) -> Iterator[Problem]:
    """Once for each argument or output; no tensor that is passed has such a shape."""
    for buffer in subject.program.buffers:
        dtype = dtype_name(buffer)
        if buffer.role not in ("parameter", "output") or dtype not in PACKED_DTYPES or not buffer.shape:
            continue
        extent = as_int(buffer.shape[-1])
        if extent is not None and extent % 2:
            yield ODD_PACKED_EXTENT.at(buffer.span, buffer=buffer.name, extent=extent, dtype=dtype)
