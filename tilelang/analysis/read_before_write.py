"""read-before-write: a tile is read although nothing was written to it."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.contents import Touch, histories
from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.order import READ_BEFORE_WRITE
from tilelang.diagnostics.span import Span
from tilelang.ir.values import Buffer
from tilelang.ops.operands import declared


def check(subject: Subject) -> Iterator[Problem]:
    """The first read of each tile. Accumulators of T.gemm are the affair of uninitialised-accumulator."""
    for history in subject.shared(histories):
        first = next((t for t in history.touches if _reads(t)), None)
        if first is None or history.may_hold_something(first):
            continue
        yield READ_BEFORE_WRITE.at(
            _place(subject, history.buffer, first),
            related=declared(history.buffer),
            buffer=history.buffer.name,
        )


def _reads(touch: Touch) -> bool:
    is_gemm_accumulator = touch.record is not None and touch.record.op == "gemm" and touch.mode == "update"
    return touch.mode != "write" and not is_gemm_accumulator


def _place(subject: Subject, buffer: Buffer, touch: Touch) -> Span:
    """The subscript itself where the read is one element of a longer statement."""
    if touch.record is not None:
        return touch.span
    for access in subject.program.accesses:
        if access.mode == "read" and access.buffer.storage is buffer and touch.span.line == access.span.line:
            return access.span
    return touch.span
