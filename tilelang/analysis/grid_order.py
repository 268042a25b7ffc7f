"""grid-order: variables that walk another dimension than is counted for them: two that are swapped, or one
that counts a dimension and never walks it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

from tilelang.analysis.global_places import GlobalPlace, global_places
from tilelang.analysis.kernel_facts import size_text
from tilelang.analysis.subject import Subject, soften
from tilelang.diagnostics.problem import Fix, Problem, Related
from tilelang.diagnostics.rules.bounds import GRID_COUNT, GRID_ORDER, LOOP_ORDER
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Launch
from tilelang.ir.values import Unknown, Value, show
from tilelang.ops.operands import declared
from tilelang.ops.source_edits import swap_arguments

from tvm import ir  # isort: skip


def check(subject: Subject) -> Iterator[Problem]:
    """The first such access of a kernel. That sizes are unrelated is no evidence; that swapping fits is."""
    launch = subject.launch
    if launch is None or any(isinstance(e, Unknown) for e in launch.grid):
        return
    symbols = {s.var for s in subject.program.symbols}
    blocks = dict(zip(launch.block_vars, launch.grid, strict=False))
    walks = {v: e for v, (_, e) in subject.ranges.items() if free_vars(e) & symbols}
    for place in subject.shared(global_places):
        dims = {v: d for d, s in enumerate(place.starts) for v in free_vars(s) if v in walks}
        for first, second in permutations(dims, 2):
            if dims[first] < dims[second] and _swapped(place, symbols, walks, dims, first, second):
                if first not in blocks or second not in blocks:
                    yield soften(_in_index(subject, place, walks, dims, first, second), place.context)
                    return
                yield soften(_problem(subject, launch, place, walks, dims, first, second), place.context)
                return
    for var, extent in blocks.items():
        problem = _miscounted(subject, var, extent, symbols)
        if problem is not None:
            yield problem
            return


def _miscounted(subject: Subject, var: ir.Var, extent: Value, symbols: set[ir.Var]) -> Problem | None:
    """A block variable that counts one dimension of a tensor and walks another one of it, here and elsewhere.

    Silent where it walks what it counts in any tensor, or dimensions of constant size: a prefix of another
    tensor may be meant there.
    """
    own = free_vars(extent) & symbols
    walked = [
        (place, dim)
        for place in subject.shared(global_places)
        for dim, start in enumerate(place.starts)
        if var in free_vars(start)
    ]
    if not own or not walked:
        return None
    for place, dim in walked:
        theirs = free_vars(place.buffer.shape[dim]) & symbols
        if place.context.guards or place.context.maybe or not theirs or own & theirs:
            return None
    place, dim = walked[0]
    sizes = place.buffer.shape
    counted = next((d for d, s in enumerate(sizes) if own == {s} and d != dim), None)
    if subject.launch is None or counted is None or not isinstance(sizes[dim], ir.Var):
        return None
    return GRID_COUNT.at(
        place.spans[dim] if dim < len(place.spans) else place.span,
        related=(Related(subject.launch.span, "the grid"), *declared(place.buffer)),
        var=var.name,
        extent=size_text(extent),
        buffer=place.buffer.name,
        counted=counted,
        counted_size=show(sizes[counted]),
        dim=dim,
        size=show(sizes[dim]),
    )


def _swapped(
    place: GlobalPlace,
    symbols: set[ir.Var],
    walks: dict[ir.Var, Value],
    dims: dict[ir.Var, int],
    first: ir.Var,
    second: ir.Var,
) -> bool:
    """Whether the extents of the two would fit the other one's dimension, and do not fit their own."""
    sizes = [place.buffer.shape[dims[v]] for v in (first, second)]
    own = [free_vars(walks[v]) & symbols for v in (first, second)]
    theirs = [free_vars(s) & symbols for s in sizes]
    if all(own) and all(theirs):
        crossed = own[0] <= theirs[1] and own[1] <= theirs[0]
        return crossed and not own[0] & theirs[0] and not own[1] & theirs[1]
    return False


def _fits_elsewhere(subject: Subject, walks: dict[ir.Var, Value], first: ir.Var, second: ir.Var) -> bool:
    """Whether one of the two walks somewhere what it counts."""
    symbols = {s.var for s in subject.program.symbols}
    return any(
        var in free_vars(start) and free_vars(walks[var]) & free_vars(size) & symbols
        for place in subject.shared(global_places)
        for start, size in zip(place.starts, place.buffer.shape, strict=True)
        for var in (first, second)
    )


def _in_index(
    subject: Subject,
    place: GlobalPlace,
    walks: dict[ir.Var, Value],
    dims: dict[ir.Var, int],
    first: ir.Var,
    second: ir.Var,
) -> Problem:
    """Where one of the two belongs to a loop: the grid is not to blame."""
    return LOOP_ORDER.at(
        place.spans[dims[first]],
        related=declared(place.buffer),
        **_words(place, walks, dims, first, second),
    )


def _words(
    place: GlobalPlace,
    walks: dict[ir.Var, Value],
    dims: dict[ir.Var, int],
    first: ir.Var,
    second: ir.Var,
) -> dict[str, Any]:
    return {
        "buffer": place.buffer.name,
        "first": first.name,
        "first_extent": size_text(walks[first]),
        "first_dim": dims[first],
        "first_size": show(place.buffer.shape[dims[first]]),
        "second": second.name,
        "second_extent": size_text(walks[second]),
        "second_dim": dims[second],
        "second_size": show(place.buffer.shape[dims[second]]),
    }


def _problem(
    subject: Subject,
    launch: Launch,
    place: GlobalPlace,
    walks: dict[ir.Var, Value],
    dims: dict[ir.Var, int],
    first: ir.Var,
    second: ir.Var,
) -> Problem:
    at = sorted(launch.block_vars.index(v) for v in (first, second))
    edits = swap_arguments(launch.span, subject.text, at[0], at[1])
    if _fits_elsewhere(subject, walks, first, second):
        edits = None  # there the swap would be wrong
    title = "Swap the first two extents of the grid" if at == [0, 1] else "Swap the two extents of the grid"
    return GRID_ORDER.at(
        place.spans[dims[first]],
        fixes=() if edits is None else (Fix(title, edits),),
        related=(Related(launch.span, "the grid"), *declared(place.buffer)),
        **_words(place, walks, dims, first, second),
    )
