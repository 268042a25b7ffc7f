"""Document symbols: each kernel with its buffers. Plain functions are left to the Python server beside us."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilelang.diagnostics.span import Span
from tilelang.facts.kernel_facts import KernelFacts
from tilelang_lsp.documents.edits import is_empty


@dataclass(frozen=True)
class Symbol:
    """A name in the outline. `detail` says what it is."""

    name: str
    detail: str
    kind: str  # "kernel" or "buffer"
    span: Span
    name_span: Span
    children: tuple[Symbol, ...] = ()


def symbols(kernels: Iterable[KernelFacts]) -> list[Symbol]:
    """The outline of a file's kernels, in the order of the text."""
    return [_kernel(facts) for facts in kernels if not is_empty(facts.span)]


def _kernel(facts: KernelFacts) -> Symbol:
    children = tuple(
        Symbol(b.name, b.type_text(), "buffer", b.name_span, b.name_span)
        for b in facts.buffers
        if not is_empty(b.name_span)
    )
    return Symbol(
        facts.qualified_name, f"{facts.style} kernel", "kernel", facts.span, facts.name_span, children
    )
