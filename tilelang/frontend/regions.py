"""Entering and leaving traced loops and branches: which names still hold afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from tilelang.diagnostics.span import Span
from tilelang.frontend.model import NO_VALUE, Escaped, Missing
from tilelang.frontend.names import same
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_traced
from tilelang.frontend.scope import Scope, TracedRegion
from tilelang.ir.values import Buffer, Unknown

Changes = dict[tuple[Scope, str], tuple[Any, Any, Span]]  # before, after, where


@contextmanager
def traced_region(
    run: Run, kind: Literal["loop", "branch", "launch"], span: Span, *, parallel: bool = False
) -> Iterator[TracedRegion]:
    """Interpret a body as one that runs any number of times (loop) or perhaps not (branch)."""
    region = TracedRegion(kind, span, parallel=parallel)
    run.regions.append(region)
    try:
        yield region
    finally:
        run.regions.pop()


def leave_loop(run: Run, region: TracedRegion, *, launch: bool = False) -> None:
    """After a traced loop: names that it changed, or bound to values of its iterations, no longer hold."""
    where, parallel = region.describe(), region.parallel
    for (scope, name), (before, span) in region.bound.items():
        after = scope.names.get(name, NO_VALUE)
        if after is NO_VALUE or isinstance(after, Unknown) or same(before, after):
            continue
        if launch and isinstance(after, Buffer):
            continue
        if before is NO_VALUE or isinstance(before, Escaped | Missing):
            if any_traced(after):
                tile = isinstance(after, Buffer)
                scope.names[name] = Escaped(name, span, where, tile, False, parallel=parallel)
            continue
        tile = isinstance(after, Buffer)
        scope.names[name] = Escaped(name, span, where, tile, True, before, parallel=parallel)


def take_changes(run: Run, region: TracedRegion) -> Changes:
    """What a branch changed; the names are set back to what they were before it."""
    changes: Changes = {}
    for (scope, name), (before, span) in region.bound.items():
        changes[scope, name] = (before, scope.names.get(name, NO_VALUE), span)
        if before is NO_VALUE:
            scope.names.pop(name, None)
        else:
            scope.names[name] = before
    return changes


Reads = list[dict[tuple[Scope, str], Span]]


def reads_of_loops(run: Run) -> Reads:
    """What the loops around have read so far of the names bound outside of them."""
    return [dict(region.reads) for region in run.regions]


def set_reads(run: Run, *some: Reads) -> None:
    """Let the loops around have read this and no more: a branch does not come after the other one of its
    `if`.
    """
    for region, *reads in zip(run.regions, *some, strict=True):
        region.reads = {key: span for part in reversed(reads) for key, span in part.items()}


def join(run: Run, region: TracedRegion, first: Changes, second: Changes, *, undecided: bool) -> None:
    """After an `if`: a name that both branches leave alike keeps its value.

    Others are Unknown where the frontend could not decide (`undecided`), else they do not hold any more.
    """
    for key in {**first, **second}:
        scope, name = key
        before, _, span = first.get(key) or second.get(key)  # type: ignore[misc]
        one = first[key][1] if key in first else before
        two = second[key][1] if key in second else before
        if same(one, two):
            after = one
        elif undecided or isinstance(one, Unknown) or isinstance(two, Unknown):
            after = Unknown(f"`{name}` depends on a condition that is not known")
        elif one is NO_VALUE or two is NO_VALUE:
            kept = two if one is NO_VALUE else one
            after = Escaped(name, span, region.describe(), isinstance(kept, Buffer), False)
        else:
            after = Escaped(name, span, region.describe(), isinstance(one, Buffer), True, before)
        for outer in run.regions:
            outer.bound.setdefault(key, (before, span))
        if after is NO_VALUE:
            scope.names.pop(name, None)
        else:
            scope.names[name] = after
