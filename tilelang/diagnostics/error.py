"""The one exception of the compiler: all problems of a kernel, raised once."""

from __future__ import annotations

from tilelang.diagnostics.problem import Problem


class KernelError(ValueError):
    """A kernel cannot be compiled. `problems` holds every finding, errors first; the text shows them all.

    `text` replaces the plain listing, where whoever raises it can show the source as well.
    """

    def __init__(self, problems: list[Problem], text: str | None = None) -> None:
        self.problems = sorted(problems, key=lambda p: (p.severity.rank, p.span))
        listing = (f"{p.span}: {p.severity.value}[{p.rule}]: {p.message}" for p in self.problems)
        super().__init__("\n".join(listing) if text is None else text)
