"""Names: lexical scopes of interpreted functions, and the traced regions (loops, branches) whose bindings
stay inside.

Python rebinding inside a traced loop or branch would be silently wrong: the body is interpreted once. A
region notes what was bound in it and what was read before; leaving it turns changed names into `Escaped`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tilelang.diagnostics.span import Span
from tilelang.frontend.model import NO_VALUE

if TYPE_CHECKING:
    from tilelang.frontend.model import Function


class Scope:
    """The names of one function call or module. `locals` are the names that Python makes local to the
    function.
    """

    def __init__(
        self,
        parent: Scope | None = None,
        locals_: Mapping[str, Span] | None = None,
        names: dict[str, Any] | None = None,
        owner: str = "",
        outer: Mapping[str, Scope] | None = None,
        function: Function | None = None,
    ) -> None:
        self.parent = parent
        self.names: dict[str, Any] = {} if names is None else names
        self.locals = locals_ or {}
        self.owner = owner
        self.function = function  # whose call this is
        # Of modules: names that may be bound by means the interpreter does not follow; "*" for any name.
        self.unlisted: frozenset[str] = frozenset()
        # Names declared nonlocal or global: the scope that really holds them.
        self.outer: dict[str, Scope] = dict(outer or {})
        # Parameters of a macro that stand for an element of the caller's: assigning to them stores there.
        self.references: set[str] = set()
        # The loops and branches in which the call stands: each of their iterations makes these names anew.
        self.around: tuple[TracedRegion, ...] = ()

    def find(self, name: str) -> tuple[Scope | None, Any]:
        """The scope that holds `name` and its value, (None, NO_VALUE) if no scope does."""
        scope: Scope | None = self
        while scope is not None:
            value = scope.names.get(name, NO_VALUE)
            if value is not NO_VALUE:
                return scope, value
            scope = scope.parent
        return None, NO_VALUE

    def visible(self) -> list[str]:
        """Every name that can be read here, nearest scope first."""
        found: list[str] = []
        scope: Scope | None = self
        while scope is not None:
            found.extend(scope.names)
            scope = scope.parent
        return found


@dataclass(eq=False)
class TracedRegion:
    """A loop or a branch that is interpreted once although it may run any number of times, or not at all."""

    kind: Literal["loop", "branch", "launch"]
    span: Span
    # (scope, name) -> the value before the region first bound it, and where it was bound.
    bound: dict[tuple[Scope, str], tuple[Any, Span]] = field(default_factory=dict)
    # Loops only: outer names read before the loop bound them.
    reads: dict[tuple[Scope, str], Span] = field(default_factory=dict)
    parallel: bool = False  # a T.Parallel loop: its iterations are spread over the threads

    def describe(self) -> str:
        return f"the {self.kind} at line {self.span.line}"
