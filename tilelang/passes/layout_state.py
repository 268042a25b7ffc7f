"""How far layout inference has come: the layouts decided so far, and why each is what it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tilelang.ir.spans import from_tvm
from tilelang.layout.fragment import Fragment
from tilelang.passes.layout_sites import Site, Use
from tilelang.passes.loop_layouts import fragment_layout, one_element_each, same_places, serves


@dataclass(frozen=True)
class Cause:
    """Why a fragment has its layout, for messages. `source`: the fragment whose layout a loop took over and
    passed on; None where `what` itself decided.
    """

    what: str
    span: Any
    source: int | None = None

    def same(self, other: Cause | None) -> bool:
        """Whether both are one statement."""
        return other is not None and self.what == other.what and from_tvm(self.span) == from_tvm(other.span)


@dataclass
class State:
    """What is decided so far."""

    fragments: dict[int, Fragment] = field(default_factory=dict)
    loops: dict[int, Fragment] = field(default_factory=dict)
    causes: dict[int, Cause] = field(default_factory=dict)  # by fragment
    sources: dict[int, int] = field(default_factory=dict)  # loop -> the fragment it follows

    def copy(self) -> State:
        return State(dict(self.fragments), dict(self.loops), dict(self.causes), dict(self.sources))

    def origin(self, handle: int) -> Cause | None:
        """What decided the layout of a fragment, at the beginning of all that passed it on."""
        seen: set[int] = set()
        cause = self.causes.get(handle)
        while cause is not None and cause.source is not None and cause.source not in seen:
            seen.add(cause.source)
            cause = self.causes.get(cause.source) or cause
        return cause


@dataclass(frozen=True)
class Conflict:
    """A use that the layouts of `state` do not serve."""

    site: Site
    use: Use
    state: State


def serves_use(site: Site, use: Use, loop: Fragment, state: State) -> bool:
    """Whether `loop` finds, or leaves, what `use` touches in its own threads."""
    fragment = state.fragments.get(use.handle)
    if fragment is None or use.mode == "reduce":
        return fragment is not None
    written = use.mode == "write"
    derived = None
    if not written or one_element_each(site, use):
        derived = fragment_layout(site, use, loop)
    if derived is not None and same_places(derived, fragment):
        return True
    return serves(loop, site.vars, site.outer, use.indices, fragment, written, use.value)
