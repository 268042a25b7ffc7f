"""Definition, references, highlights and rename of buffers, from the exact uses that analysis found."""

from __future__ import annotations

from collections.abc import Iterable

from tilelang.diagnostics.span import Span
from tilelang.facts.kernel_facts import KernelFacts
from tilelang_lsp.documents.edits import is_empty
from tilelang_lsp.ide.places import buffer_at, buffer_spans, contains, is_allocation


def definition(kernels: Iterable[KernelFacts], line: int, column: int) -> Span | None:
    """Where the buffer whose name stands here is bound."""
    found = _find(kernels, line, column)
    return found[0].buffers[found[1]].name_span if found else None


def references(kernels: Iterable[KernelFacts], line: int, column: int) -> list[Span]:
    """Every place of the buffer whose name stands here, its binding first."""
    found = _find(kernels, line, column)
    return [s for s in buffer_spans(*found) if not is_empty(s)] if found else []


def renameable(kernels: Iterable[KernelFacts], line: int, column: int) -> Span | None:
    """The name that a rename would change. Only allocations: parameters are also named by callers."""
    found = _find(kernels, line, column)
    if found is None or not is_allocation(found[0].buffers[found[1]]):
        return None
    return next((s for s in buffer_spans(*found) if contains(s, line, column)), None)


def _find(kernels: Iterable[KernelFacts], line: int, column: int) -> tuple[KernelFacts, int] | None:
    for facts in kernels:
        if contains(facts.span, line, column):
            found = buffer_at(facts, line, column)
            if found is not None:
                return facts, found[0]
    return None
