"""wrong-variable: an index that leaves a part of a tensor out, or lies outside it, where another order or
another block variable of the same kernel would go through exactly all of it.

A part may be meant, though, of a tensor that is as long as another dimension by chance: only two entries that
fit in the other order alone are a warning.

That a part is left out is no mistake by itself. That the index fits as soon as two of its entries are
swapped, or one block variable stands in place of another that is not used there, is the evidence. Only sizes
that are numbers: with open ones any two orders fit. Silent where the annotation names what the variable
counts (`2 * N // 32` of blocks along N: the first half of a fused tensor), and where nothing else that is
read has that variable, so that its place is here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from tilelang.analysis import misplaced_result, mostly_outside, output_not_written, partly_used
from tilelang.analysis.dimension_names import DimensionNames
from tilelang.analysis.global_places import GlobalPlace, global_places
from tilelang.analysis.subject import Subject, soften
from tilelang.analysis.tensor_use import TensorUse, TensorUses, tensor_uses
from tilelang.diagnostics.problem import Problem, Severity
from tilelang.diagnostics.rules.bounds import SWAPPED_INDEX, WRONG_VARIABLE
from tilelang.ir.prove import free_vars, substitute
from tilelang.ir.values import as_int
from tilelang.ops.operands import declared
from tilelang.ops.source_edits import argument_of

from tvm import ir  # isort: skip


def check(subject: Subject) -> Iterator[Problem]:
    """The first of a kernel. Silent where another rule names the index."""
    if subject.launch is None or not subject.program.complete:
        return
    uses = subject.shared(tensor_uses)
    for use in uses.uses:
        if use.buffer in uses.unknown or len(use.places) != 1 or uses.plainly_whole(use):
            continue
        (place,) = use.places
        if place.context.guards or place.context.maybe or any(as_int(n) is None for n in use.buffer.shape):
            continue
        problem = _swapped(uses, use, place) or _mistaken(uses, use, place)
        if problem is not None:
            if not subject.told_by(
                partly_used.check, mostly_outside.check, misplaced_result.check, output_not_written.check
            ):
                yield soften(problem, place.context)
            return


def _swapped(uses: TensorUses, use: TensorUse, place: GlobalPlace) -> Problem | None:
    for a, b in combinations(range(len(place.starts)), 2):
        starts = list(place.starts)
        starts[a], starts[b] = starts[b], starts[a]
        if not (free_vars(place.starts[a]) or free_vars(place.starts[b])):
            continue
        # Both go wrong as it is written: a square hides nothing.
        if uses.exactly(place, a) or uses.exactly(place, b):
            continue
        if any(_of_another_name(uses, place, d, v) for d in (a, b) for v in free_vars(starts[d])):
            continue
        other = replace(place, starts=tuple(starts))
        if all(uses.exactly(other, d) for d in range(len(starts))):
            return SWAPPED_INDEX.at(
                place.span,
                related=declared(use.buffer),
                first=a,
                second=b,
                region=place.text,
                buffer=use.buffer.name,
                does="writes" if use.writes else "reads",
            )
    return None


def _mistaken(uses: TensorUses, use: TensorUse, place: GlobalPlace) -> Problem | None:
    launch = uses.subject.launch
    assert launch is not None
    unused = [v for v in launch.block_vars if not any(v in free_vars(s) for s in place.starts)]
    for dim, start in enumerate(place.starts):
        mine = [v for v in launch.block_vars if v in free_vars(start)]
        if len(mine) != 1 or uses.exactly(place, dim) or not (use.writes or _read_by(uses, use, mine[0])):
            continue
        for var in unused:
            if _count(uses, var) in (1, _count(uses, mine[0])) or _of_another_name(uses, place, dim, var):
                continue
            if _named_by(uses, use, dim, mine[0], var):
                continue
            starts = list(place.starts)
            starts[dim] = substitute(start, {mine[0]: var})
            other = replace(place, starts=tuple(starts))
            if all(uses.exactly(other, d) for d in range(len(starts))):
                problem = WRONG_VARIABLE.at(
                    place.spans[dim] if dim < len(place.spans) else place.span,
                    related=declared(use.buffer),
                    var=mine[0].name,
                    right=var.name,
                    dim=dim,
                    buffer=use.buffer.name,
                    size=use.buffer.shape[dim],
                )
                return problem.with_severity(Severity.HINT)  # a size may be another one's by chance
    return None


def _of_another_name(uses: TensorUses, place: GlobalPlace, dim: int, var: ir.Var) -> bool:
    """Whether the author calls a dimension by a name, and all that a variable walks elsewhere by others: a
    table of `padded` entries, as many as there are batches by chance.
    """
    names = uses.subject.shared(DimensionNames)
    walked = {
        names.words(other.buffer, k)
        for other in uses.subject.shared(global_places)
        for k, start in enumerate(other.starts)
        if other is not place and var in free_vars(start)
    }
    mine = names.words(place.buffer, dim)
    return mine is not None and bool(walked) and None not in walked and mine not in walked


def _read_by(uses: TensorUses, use: TensorUse, var: ir.Var) -> bool:
    """Whether another tensor is read at an index with the variable."""
    return any(
        not place.writes and place.buffer is not use.buffer and any(var in free_vars(s) for s in place.starts)
        for place in uses.subject.shared(global_places)
    )


def _named_by(uses: TensorUses, use: TensorUse, dim: int, var: ir.Var, other: ir.Var) -> bool:
    """Whether a dimension is written with a name that `var` counts in the grid, and `other` does not."""
    subject, launch = uses.subject, uses.subject.launch
    if launch is None:
        return False
    counted = [
        _words(argument_of(launch.span, subject.text, k, "")) if v.same_as(var) or v.same_as(other) else set()
        for k, v in enumerate(launch.block_vars)
    ]
    at = dict(zip(launch.block_vars, counted, strict=True))
    written = subject.shared(DimensionNames).mentioned(use.buffer, dim)
    return bool(written & at[var]) and not written & at[other]


def _words(node: ast.expr | None) -> set[str]:
    return set() if node is None else {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _count(uses: TensorUses, var: ir.Var) -> int | None:
    return as_int(uses.subject.ranges.get(var, (0, None))[1])
