"""Between our spans (code points from 1) and TVM's, which carry the same numbers through every pass."""

from __future__ import annotations

from tvm import ir

from tilelang.diagnostics.span import Span

# Where a problem stands whose node was made from nothing; who knows the kernel puts it at its name.
NOWHERE = Span("<kernel>", 1, 1, 1, 1)


def to_tvm(span: Span | None) -> ir.Span | None:
    """A TVM span with the same numbers."""
    if span is None:
        return None
    return ir.Span(ir.SourceName(span.path), span.line, span.end_line, span.column, span.end_column)


def from_tvm(span: ir.Span | None) -> Span | None:
    """Our span again; None where a pass made the node from nothing."""
    if span is None:
        return None
    return Span(str(span.source_name.name), span.line, span.column, span.end_line, span.end_column)


def place_of(span: ir.Span | None) -> Span:
    """Our span for a problem's place: `NOWHERE` where a pass made the node from nothing."""
    return from_tvm(span) or NOWHERE
