"""Code lenses above each kernel: run & assert, previews, shared memory, the last result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tilelang.diagnostics.span import Span
from tilelang.facts.kernel_facts import KernelFacts
from tilelang.facts.reports import RunResult
from tilelang.facts.wording import shared_memory_text
from tilelang_lsp.ide.run_report import one_line

RUN_TITLE = "▶ run & assert vs torch"
_PREVIEWS = (("cuda", "preview CUDA"), ("hip", "preview HIP"), ("metal", "preview Metal"))


@dataclass(frozen=True)
class Lens:
    """A line above the kernel. `action` "none" only says something."""

    span: Span
    title: str
    action: Literal["run", "preview", "none"]
    kernel: str
    target: str | None = None


def lenses(
    span: Span, kernel: str, facts: KernelFacts | None, last_run: RunResult | None = None
) -> Iterator[Lens]:
    """The lenses of the kernel whose first line `span` begins at. `facts` may not be known yet."""
    yield Lens(span, RUN_TITLE, "run", kernel)
    for target, title in _PREVIEWS:
        yield Lens(span, title, "preview", kernel, target)
    memory = shared_memory_text(facts) if facts is not None else None
    if memory is not None:
        yield Lens(span, memory, "none", kernel)
    if last_run is not None:
        yield Lens(span, one_line(last_run), "none", kernel)
