"""Where a kernel touches its tensors: regions of tile operations and single elements, in one form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tilelang.analysis.subject import Subject
from tilelang.diagnostics.span import Span
from tilelang.ir.tile_program import Context
from tilelang.ir.values import Buffer, Region, Unknown, Value


@dataclass(frozen=True, eq=False)
class GlobalPlace:
    """One touch of a tensor: per dimension its start, its extent and where that is written."""

    buffer: Buffer
    writes: bool
    starts: tuple[Value, ...]
    extents: tuple[Value, ...]
    spans: tuple[Span, ...]
    span: Span
    text: str
    context: Context


def global_places(subject: Subject) -> list[GlobalPlace]:
    """All touches with known starts, extents and sizes, operations first."""
    found = [*_regions(subject), *_elements(subject)]
    return [
        p for p in found if not any(isinstance(v, Unknown) for v in (*p.starts, *p.extents, *p.buffer.shape))
    ]


def _regions(subject: Subject) -> Iterator[GlobalPlace]:
    for record in subject.records:
        for access in subject.accesses(record):
            region = access.region
            if region.buffer.scope == "global" and region.fits_rank and not region.whole:
                yield GlobalPlace(
                    region.buffer,
                    access.mode != "read",
                    region.starts,
                    tuple(access.extents),
                    _spans(region),
                    region.span,
                    region.text(),
                    record.context,
                )


def _elements(subject: Subject) -> Iterator[GlobalPlace]:
    for access in subject.program.accesses:
        buffer: Any = access.buffer
        if buffer.scope == "global" and len(access.indices) == len(buffer.shape):
            region = Region(buffer, access.indices, access.span)
            yield GlobalPlace(
                buffer,
                access.mode == "write",
                region.starts,
                (1,) * len(access.indices),
                _spans(region),
                access.span,
                region.text(),
                access.context,
            )


def _spans(region: Region) -> tuple[Span, ...]:
    return tuple(i.span for i in region.indices or ())
