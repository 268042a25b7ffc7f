"""Hover: what a buffer is, what a tile operation does, how a kernel is launched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilelang.diagnostics.span import Span
from tilelang.facts.kernel_facts import BufferFact, KernelFacts, LoopFact, OpFact
from tilelang_lsp.documents.line_index import LineIndex
from tilelang_lsp.ide.places import buffer_at, callee, contains
from tilelang_lsp.ide.wording import (
    byte_text,
    quantity,
    shape_text,
    shared_bytes_text,
    specialisation_text,
)


@dataclass(frozen=True)
class Hover:
    """Markdown, and the text it is about."""

    markdown: str
    span: Span


def hover(kernels: Iterable[KernelFacts], index: LineIndex, line: int, column: int) -> Hover | None:
    """The hover at a place, None where nothing of a kernel stands."""
    for facts in kernels:
        if contains(facts.span, line, column):
            found = _in_kernel(facts, index, line, column)
            if found is not None:
                return found
    return None


def _in_kernel(facts: KernelFacts, index: LineIndex, line: int, column: int) -> Hover | None:
    named = buffer_at(facts, line, column)
    if named is not None:
        return Hover(buffer_markdown(facts, facts.buffers[named[0]]), named[1])
    for op in facts.ops:
        if contains(op.callee_span, line, column):
            return Hover(_op_markdown(facts, op, _written(index, op.callee_span)), op.callee_span)
    for loop in facts.loops:
        span = callee(loop.span, index.line(loop.span.line - 1))
        if contains(span, line, column):
            return Hover(_loop_markdown(loop), span)
    if facts.launch is not None:
        span = callee(facts.launch.span, index.line(facts.launch.span.line - 1))
        if contains(span, line, column):
            return Hover(kernel_markdown(facts), span)
    if contains(facts.name_span, line, column):
        return Hover(kernel_markdown(facts), facts.name_span)
    return None


def buffer_markdown(facts: KernelFacts, buffer: BufferFact) -> str:
    """Scope, shape, dtype, bytes, layout, registers per thread."""
    role = f"{buffer.role} of {facts.name}" if buffer.role else _SCOPES.get(buffer.scope, buffer.scope)
    lines = [role]
    if buffer.bytes is not None:
        if buffer.stages > 1:
            total = byte_text(buffer.bytes * buffer.stages)
            lines.append(f"{byte_text(buffer.bytes)} × {buffer.stages} stages = {total}")
        else:
            lines.append(byte_text(buffer.bytes))
    if buffer.layout:
        lines.append(f"layout: {buffer.layout}")
    if buffer.registers_per_thread is not None:
        lines.append(f"{quantity(buffer.registers_per_thread, 'register')} per thread")
    return _page(f"{buffer.name}: {buffer.type_text()}", lines, _basis(facts))


_SCOPES = {
    "global": "global memory",
    "shared": "shared memory, one tile per block",
    "fragment": "fragment, one tile spread over the threads of the block",
    "local": "private array of each thread",
    "var": "mutable scalar of each thread",
}


def _written(index: LineIndex, span: Span) -> str:
    """The text of a span within one line."""
    return index.line(span.line - 1)[span.column - 1 : span.end_column - 1]


def _op_markdown(facts: KernelFacts, op: OpFact, written: str) -> str:
    lines = [op.summary]
    if op.instruction:
        lines.append(f"{facts.target}: {op.instruction}")
    return _page(written or f"T.{op.op}", [*lines, *op.notes], _basis(facts))


def _loop_markdown(loop: LoopFact) -> str:
    lines = [loop.summary]
    if loop.num_stages and "stage" not in loop.summary:
        lines.append(quantity(loop.num_stages, "stage"))
    return _page(f"T.{loop.kind}({', '.join(map(str, loop.extents))})", lines, None)


def kernel_markdown(facts: KernelFacts) -> str:
    """Grid, threads, and shared memory of the budget."""
    lines = []
    if facts.launch is not None:
        lines.append(f"grid: {shape_text(facts.launch.grid)} blocks")
        if facts.launch.threads is not None:
            lines.append(f"{facts.launch.threads} threads per block")
    shared = shared_bytes_text(facts)
    if shared is not None and facts.shared_bytes is not None:
        used = f"shared memory: {shared}"
        if facts.shared_limit:
            share = 100 * facts.shared_bytes / facts.shared_limit
            used += f" of {byte_text(facts.shared_limit)} ({share:.0f} %)"
        lines.append(used)
    elif any(b.scope == "shared" for b in facts.buffers):
        lines.append("shared memory: not known, sizes are symbolic")
    registers = [b.registers_per_thread for b in facts.buffers if b.registers_per_thread]
    if registers:
        lines.append(f"fragments and locals: {quantity(sum(registers), 'register')} per thread")
    head = f"{facts.qualified_name}({', '.join(b.name for b in facts.buffers if b.role == 'parameter')})"
    return _page(head, [f"{facts.style} kernel for {facts.target}", *lines], _basis(facts))


def _basis(facts: KernelFacts) -> str | None:
    """What the numbers rest on."""
    parts = []
    if facts.specialisation:
        parts.append(f"for {specialisation_text(facts)}")
    if facts.lowered_with:
        sizes = ", ".join(f"{name}={value}" for name, value in facts.lowered_with)
        parts.append(f"layouts and instructions with {sizes}, as a call in this file has it")
    if facts.missing:
        names = ", ".join(facts.missing)
        parts.append(f"no value for {names}: give one with `# tilelang: specialize({facts.missing[0]}=...)`")
    return "; ".join(parts) or None


def _page(head: str, lines: Iterable[str], foot: str | None) -> str:
    # Two spaces at a line's end are Markdown's line break.
    body = "  \n".join(lines)
    return f"```python\n{head}\n```\n{body}" + (f"\n\n*{foot}*" if foot else "")
