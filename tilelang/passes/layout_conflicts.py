"""What layout inference tells the author where layouts do not fit each other.

A conflict is explained by two causes: what gave this fragment its layout, and what another one in the same
statement. Each is followed back to where it began, past the loops that only passed a layout on.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx as X

from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules import layout as rules
from tilelang.ir.spans import from_tvm, place_of
from tilelang.passes.accesses import accesses
from tilelang.passes.layout_sites import Use
from tilelang.passes.layout_state import Cause, Conflict, State, serves_use
from tilelang.passes.loop_layouts import loop_layout, same_places
from tilelang.passes.walk import walk

ANNOTATED = "T.annotate_layout"
"""How the cause of a layout that the author wrote is called."""

GEMM = "T.gemm"
"""How the causes that gemms are begin."""


def told(conflict: Conflict) -> Problem:
    """The conflict with the two causes it comes from, each at its place."""
    use, state = conflict.use, conflict.state
    name, span = str(use.buffer.name), place_of(conflict.site.span)
    other = _opponent(conflict)
    mine, its = state.origin(use.handle), None if other is None else state.origin(other.handle)
    if other is not None and mine is not None and mine.same(its):  # passed on in two ways
        mine, its = state.causes[use.handle], state.causes[other.handle]
    related = [
        Related(at, _cause_note(str(u.buffer.name), cause.what))
        for u, cause in ((use, mine), (other, its))
        if u is not None and cause is not None and (at := from_tvm(cause.span)) is not None
        if at != span
    ]
    statement = _statement(conflict.site.stmt, use)
    at = None if statement is None else from_tvm(statement.span)
    if statement is not None and at is not None and at.line != span.line:
        # A store knows where its target stands, but not what it reads.
        target = statement.buffer.__chandle__() == use.handle
        note = f"{name} is used here" if target else f"what is stored here needs {name}"
        related.insert(0, Related(at, note))
    if other is None or its is None:
        return rules.FRAGMENT_LAYOUT.at(span, related=tuple(related), buffer=name)
    one, two = (state.fragments.get(u.handle) for u in (use, other))
    if one is not None and two is not None and same_places(one, two) and _shown(use) != _shown(other):
        return rules.FRAGMENT_PLACES.at(
            span,
            related=tuple(related),
            element=f"{name}[{_shown(use)}]",
            other=f"{other.buffer.name}[{_shown(other)}]",
            buffer=name,
        )
    one_way = "move one of them with T.copy, which goes through shared memory"
    by_policy = all(c is not None and c.what.startswith(GEMM) for c in (mine, its))
    return rules.FRAGMENT_LAYOUT_CONFLICT.at(
        span,
        related=tuple(related),
        buffer=name,
        cause=_cause_text(mine),
        other=str(other.buffer.name),
        other_cause=_cause_text(its),
        cure=f"use one policy and shape for both, or {one_way}" if by_policy else one_way,
    )


def _opponent(conflict: Conflict) -> Use | None:
    """The use of another fragment whose layout keeps the loop from serving the one of the conflict."""
    site, use, state = conflict.site, conflict.use, conflict.state
    here = from_tvm(site.span)
    found: list[Use] = []
    for other in site.uses:
        fragment = state.fragments.get(other.handle)
        cause = state.origin(other.handle)
        if other.handle == use.handle or fragment is None or cause is None:
            continue
        if from_tvm(cause.span) == here:
            continue  # it follows this very statement
        loop = loop_layout(site, other, fragment) if other.mode != "reduce" else None
        if loop is None or not serves_use(site, use, loop, state):
            found.append(other)
    pinned = state.sources.get(site.stmt.__chandle__())
    found.sort(key=lambda u: (state.causes[u.handle].source is not None, u.handle != pinned))
    return found[0] if found else None


def decided(conflict: Conflict, state: State) -> bool:
    """Whether both sides of a conflict have a layout in `state`, what was known before anything was tried."""
    other = _opponent(conflict)
    known = state.fragments
    return conflict.use.handle in known and other is not None and other.handle in known


def pinned_twice(name: str, first: Cause, second: Cause) -> Problem:
    """The problem of a fragment of which two statements each need a layout of their own."""
    earlier = place_of(first.span)
    note = f"{first.what} needs one layout of {name}"
    related = (Related(earlier, _cause_note(name, first.what) if first.what == ANNOTATED else note),)
    gemms = first.what.startswith(GEMM) and second.what.startswith(GEMM)
    roles = {role for c in (first, second) for role in ("A", "B") if f"operand {role}" in c.what}
    return rules.FRAGMENT_PINNED_TWICE.at(
        place_of(second.span),
        related=related,
        buffer=name,
        first=_cause_text(first),
        second=second.what,
        cure=", or use one policy and shape for both" if gemms and len(roles) != 1 else "",
    )


def _cause_text(cause: Cause | None) -> str:
    """`T.gemm at line 40 (its accumulator, policy FullRow)`."""
    if cause is None:
        return "its other uses"
    if cause.what == ANNOTATED:
        return cause.what
    subject, bracket, rest = cause.what.partition(" (")
    return f"{subject} at line {place_of(cause.span).line}{bracket}{rest}"


def _statement(loop: Any, use: Use) -> X.BufferStore | None:
    """The first store of a loop that touches a fragment."""
    for stmt in walk(loop):
        if isinstance(stmt, X.BufferStore) and any(
            a.buffer.__chandle__() == use.handle for a in accesses(stmt)
        ):
            return stmt
    return None


def _cause_note(name: str, cause: str) -> str:
    """What stands beside the place that decides a layout; an annotation has the tile's own."""
    if cause == ANNOTATED:
        return f"{name}, which {cause} lays out"
    return f"{name} gets its layout from {cause} here"


def _shown(use: Use) -> str:
    return ", ".join(str(i) for i in use.indices)
