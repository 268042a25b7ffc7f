"""What a rule is: a record with a telling name, a family, a level, a summary and its message template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilelang.diagnostics.problem import Fix, Problem, Related, Severity, calls_of
from tilelang.diagnostics.span import Span

Family = Literal[
    "python",
    "shape",
    "scope",
    "dtype",
    "bounds",
    "order",
    "layout",
    "resource",
    "performance",
    "compat",
    "internal",
    "run",
]


@dataclass(frozen=True)
class Rule:
    """One rule. `message` is a `str.format` template; call sites pass fields, never sentences.

    The page `docs/rules/<name>.md` says what, why, an example that fires, a near miss, and the fix.
    """

    name: str
    family: Family
    level: Severity
    summary: str
    message: str
    by_lowering: bool = False  # so a check alone never calls an ignore comment for it unused
    informs: bool = False  # says how a right kernel runs: a command line prints it only where it is selected

    def at(
        self,
        span: Span,
        *,
        related: tuple[Related, ...] = (),
        fixes: tuple[Fix, ...] = (),
        tags: tuple[str, ...] = (),
        severity: Severity | None = None,
        **fields: object,
    ) -> Problem:
        """The problem this rule reports at `span`, its message filled with `fields`. The calls that led there
        are added to `related`.
        """
        text = self.message.format(**fields)
        related = (*related, *calls_of(span))
        return Problem(self.name, severity or self.level, text, span, related, fixes, tags)
