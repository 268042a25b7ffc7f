"""Inlay hints: shape and dtype behind every allocated name, extents behind every tile operation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from tilelang.diagnostics.span import Span
from tilelang.facts.kernel_facts import BufferFact, KernelFacts
from tilelang.facts.wording import byte_text
from tilelang_lsp.documents.edits import is_empty
from tilelang_lsp.ide.hover import buffer_markdown


@dataclass(frozen=True)
class InlayHint:
    """`label` stands behind the text at (line, column); `tooltip` is Markdown."""

    line: int
    column: int
    label: str
    kind: Literal["type", "operation"]
    tooltip: str


def inlay_hints(kernels: Iterable[KernelFacts], first_line: int, last_line: int) -> list[InlayHint]:
    """The hints of lines `first_line` to `last_line`, from 1, both included."""
    found: list[InlayHint] = []
    for facts in kernels:
        if facts.span.line <= last_line and first_line <= facts.span.end_line:
            found.extend(h for h in _of_kernel(facts) if first_line <= h.line <= last_line)
    return found


def _of_kernel(facts: KernelFacts) -> Iterator[InlayHint]:
    for buffer in facts.buffers:
        # What a parameter is stands in its annotation already.
        if buffer.role == "parameter" or is_empty(buffer.name_span) or buffer.dtype == "unknown":
            continue
        end = buffer.name_span
        yield InlayHint(
            end.end_line, end.end_column, _allocation(buffer), "type", buffer_markdown(facts, buffer)
        )
    for op in facts.ops:
        if op.hint and not _is_cut(op.span):
            tooltip = op.summary if op.instruction is None else f"{op.summary}  \n{op.instruction}"
            yield InlayHint(op.span.end_line, op.span.end_column, op.hint, "operation", tooltip)


def _allocation(buffer: BufferFact) -> str:
    shape = f"[{', '.join(map(str, buffer.shape))}]" if buffer.shape else ""
    label = f": {buffer.dtype}{shape}"
    if buffer.stages > 1 and buffer.bytes is not None:
        label += f" × {buffer.stages} stages, {byte_text(buffer.bytes * buffer.stages)}"
    return label


def _is_cut(span: Span) -> bool:
    return is_empty(span)
