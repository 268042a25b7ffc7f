"""Hover: what a buffer is, what a tile operation does, how a kernel is launched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilelang.diagnostics.span import Span
from tilelang.facts.kernel_facts import BufferFact, KernelFacts, LoopFact, OpFact
from tilelang.facts.wording import basis_words, buffer_words, launch_words, loop_words
from tilelang_lsp.documents.line_index import LineIndex
from tilelang_lsp.ide.places import buffer_at, callee, contains


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
    return _page(f"{buffer.name}: {buffer.type_text()}", [role, *buffer_words(buffer)], _basis(facts))


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
    return _page(f"T.{loop.kind}({', '.join(map(str, loop.extents))})", loop_words(loop), None)


def kernel_markdown(facts: KernelFacts) -> str:
    """Grid, threads, and shared memory of the budget."""
    head = f"{facts.qualified_name}({', '.join(b.name for b in facts.buffers if b.role == 'parameter')})"
    lines = [f"{facts.style} kernel for {facts.target}", *launch_words(facts)]
    return _page(head, lines, _basis(facts))


def _basis(facts: KernelFacts) -> str | None:
    """What the numbers rest on."""
    return "; ".join(basis_words(facts)) or None


def _page(head: str, lines: Iterable[str], foot: str | None) -> str:
    # Two spaces at a line's end are Markdown's line break.
    body = "  \n".join(lines)
    return f"```python\n{head}\n```\n{body}" + (f"\n\n*{foot}*" if foot else "")
