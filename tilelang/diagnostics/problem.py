"""The problem objects that analysis returns and every front end (editor, terminal, JSON, exception) shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from tilelang.diagnostics.span import Span

_MOST_CALLS = 5  # that are shown of those that led to a place


class Severity(str, Enum):
    """How sure and how grave. An error is proven wrong; what cannot be proven is at most a hint."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    HINT = "hint"

    @property
    def rank(self) -> int:
        return ("error", "warning", "info", "hint").index(self.value)


@dataclass(frozen=True)
class Related:
    """A second place that explains the problem, such as the allocation of an operand."""

    span: Span
    message: str

    def shifted(self, lines: int) -> Related:
        return replace(self, span=self.span.shifted(lines))


CALLED_HERE = "called from here"


def calls_of(span: Span) -> tuple[Related, ...]:
    """The calls that led to a place in a macro or a helper, the nearest first; of a recursion the last."""
    calls: list[Related] = []
    while span.via is not None and len(calls) < _MOST_CALLS:
        span = span.via
        calls.append(Related(span, CALLED_HERE))
    return tuple(calls)


@dataclass(frozen=True)
class Edit:
    """Replace the text of `span` by `new_text`."""

    span: Span
    new_text: str

    def shifted(self, lines: int) -> Edit:
        return replace(self, span=self.span.shifted(lines))


@dataclass(frozen=True)
class Fix:
    """A titled set of edits that solves the problem it is attached to."""

    title: str
    edits: tuple[Edit, ...]

    def shifted(self, lines: int) -> Fix:
        return replace(self, edits=tuple(e.shifted(lines) for e in self.edits))


@dataclass(frozen=True)
class Problem:
    """One finding: the rule's name, how grave, what to tell the author, where, and what else to look at."""

    rule: str
    severity: Severity
    message: str
    span: Span
    related: tuple[Related, ...] = ()
    fixes: tuple[Fix, ...] = ()
    tags: tuple[str, ...] = field(default=())  # "unnecessary" or "deprecated", as editors know them

    def shifted(self, lines: int) -> Problem:
        """The same problem after `lines` lines were inserted above the kernel it belongs to."""
        return replace(
            self,
            span=self.span.shifted(lines),
            related=tuple(r.shifted(lines) for r in self.related),
            fixes=tuple(f.shifted(lines) for f in self.fixes),
        )

    def seen_from(self, path: str) -> Problem:
        """The same problem for one who looks at the file `path` alone: what stands in another file is moved
        to the call that leads there, and says where it stands. Edits of other files are left out.
        """
        if self.span.path == path:
            return self
        calls = [r for r in self.related if r.message == CALLED_HERE and r.span.path == path]
        here = [r for r in self.related if r.span.path == path]
        if not here:
            return self
        file = re.split(r"[/\\]", self.span.path)[-1]
        return replace(
            self,
            message=f"in {file}, line {self.span.line}: {self.message}",
            span=(calls or here)[0].span,
            related=(Related(self.span, "the place"), *self.related),
            fixes=tuple(f for f in self.fixes if all(e.span.path == path for e in f.edits)),
        )

    def renamed(self, name: Callable[[str], str]) -> Problem:
        """The same problem with every file under the name that `name` gives for its path."""

        def at(span: Span) -> Span:
            return replace(span, path=name(span.path))

        return replace(
            self,
            span=at(self.span),
            related=tuple(replace(r, span=at(r.span)) for r in self.related),
            fixes=tuple(
                replace(f, edits=tuple(replace(e, span=at(e.span)) for e in f.edits)) for f in self.fixes
            ),
        )

    def with_severity(self, severity: Severity) -> Problem:
        return replace(self, severity=severity)

    def to_json(self) -> dict[str, Any]:
        """The full object, for the analysis process; `tilelang check --format json` has keys of its own."""
        return {
            "rule": self.rule,
            "severity": self.severity.value,
            "message": self.message,
            "span": self.span.to_json(),
            "related": [{"span": r.span.to_json(), "message": r.message} for r in self.related],
            "fixes": [
                {
                    "title": f.title,
                    "edits": [{"span": e.span.to_json(), "new_text": e.new_text} for e in f.edits],
                }
                for f in self.fixes
            ],
            "tags": list(self.tags),
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Problem:
        return Problem(
            rule=data["rule"],
            severity=Severity(data["severity"]),
            message=data["message"],
            span=Span.from_json(data["span"]),
            related=tuple(Related(Span.from_json(r["span"]), r["message"]) for r in data["related"]),
            fixes=tuple(
                Fix(f["title"], tuple(Edit(Span.from_json(e["span"]), e["new_text"]) for e in f["edits"]))
                for f in data["fixes"]
            ),
            tags=tuple(data["tags"]),
        )
