"""partly-used: a part of a dimension is never touched, where the kernel itself says that all of it counts.

That a part is left out is proven, yet no mistake: a kernel may read a prefix. Evidence that all of it was
meant is another tensor with a dimension of that name which is used whole (K of A, but not K of B), or a loop
or grid that names this dimension and stops short. Silent about what stands under conditions, about one
element at a constant index, and where an index depends on memory or on sizes that may be related.

Reads outside a tensor give zero, so that a kernel may shift on purpose: `B[i] = A[i - 1]`. There the other
tensor must be read too, or the shifted tile go into a product. And a tile that holds a whole dimension of
open size stands still on purpose, unless others go through that dimension in tiles as large.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from tilelang.analysis import block_write_race, output_not_written
from tilelang.analysis.affine import affine
from tilelang.analysis.coverage import ranges_text
from tilelang.analysis.dimension_names import DimensionNames
from tilelang.analysis.global_places import GlobalPlace, global_places
from tilelang.analysis.meant_shift import is_meant
from tilelang.analysis.subject import Subject
from tilelang.analysis.swapped_ceildiv import swapped_counts
from tilelang.analysis.tensor_use import TensorUse, TensorUses, tensor_uses
from tilelang.analysis.tile_axes import tile_axes
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rule import Rule
from tilelang.diagnostics.rules.bounds import (
    DIAGONAL_USED,
    ONE_BLOCK_OF_MANY,
    PARTLY_COUNTED,
    PARTLY_COUNTED_FROM,
    PARTLY_USED,
)
from tilelang.diagnostics.span import Span
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import For, Launch, walk
from tilelang.ir.values import as_int
from tilelang.ops.operands import declared
from tilelang.ops.source_edits import argument_of, span_text

from tvm import ir  # isort: skip


def check(subject: Subject) -> Iterator[Problem]:
    """One problem for each tensor, and one for each loop or grid that stops short."""
    if not subject.program.complete or subject.launch is None:
        return
    swapped = subject.shared(swapped_counts)
    if swapped:
        yield from swapped
        return
    uses = subject.shared(tensor_uses)
    doubtful = [use for use in uses.uses if not uses.plainly_whole(use) and _unconditional(use)]
    if not doubtful:
        return
    doubtful = [use for use in doubtful if use.buffer not in uses.unknown]
    if any(use.writes for use in doubtful) and subject.told_by(
        output_not_written.check, block_write_race.check
    ):
        doubtful = [use for use in doubtful if not use.writes]
    found = (_left_out(uses, use) or _diagonal(uses, use) for use in doubtful)
    yield from unique_places(p for p in found if p is not None)


def unique_places(problems: Iterable[Problem]) -> Iterator[Problem]:
    """The first at each place: a loop that stops short does so for all tensors it walks."""
    told: set[Span] = set()
    for problem in problems:
        if problem.span not in told:
            told.add(problem.span)
            yield problem


def _unconditional(use: TensorUse) -> bool:
    return not any(p.context.guards or p.context.maybe for p in use.places)


def _left_out(uses: TensorUses, use: TensorUse) -> Problem | None:
    for dim in range(len(use.buffer.shape)):
        if uses.whole(use, dim) or _picked(uses, use, dim):
            continue
        missing = uses.left_out(use, dim)
        if missing is None or missing.all():
            continue
        other = _used_whole(uses, use, dim)
        if other is not None:
            return _beside(uses, use, dim, missing, *other)
        counting = _stops_short(uses, use, dim, missing)
        if counting is not None:
            return _counted(uses, use, dim, missing, *counting)
        late = _starts_late(uses, use, dim, missing)
        if late is not None:
            return _counted(uses, use, dim, missing, *late, rule=PARTLY_COUNTED_FROM)
        only = _one_block(uses, use, dim)
        if only is not None:
            return _always_first(uses, use, dim, missing, only)
    return None


def _picked(uses: TensorUses, use: TensorUse, dim: int) -> bool:
    """One element at a constant index was picked by its author, unless what is written has this dimension
    whole, or a tensor that is read and has all the same dimensions is used whole along it.
    """
    if not any(_deliberate(uses, place, dim) for place in use.places):
        return False
    if use.writes or not all(_deliberate(uses, place, dim) for place in use.places):
        return True
    names = uses.subject.shared(DimensionNames)
    walking = [
        (other, k)
        for other in uses.uses
        if other is not use and other.buffer not in uses.unknown
        for k in range(len(other.buffer.shape))
        if names.same(use.buffer, dim, other.buffer, k) and uses.through(other, k)
    ]
    # The query of the first token beside the keys of all: the result has its dimension from the keys.
    if any(_twins(uses, use, other) and _one_each(uses, other, k) for other, k in walking):
        return False
    return not walking or any(not other.writes for other, _ in walking)


def _one_each(uses: TensorUses, other: TensorUse, dim: int) -> bool:
    """Whether a statement takes one element of a dimension per block, as heads and groups are counted."""
    launch = uses.subject.launch
    return launch is not None and any(
        as_int(place.extents[dim]) == 1
        and bool(behind := free_vars(place.starts[dim]))
        and behind <= set(launch.block_vars)
        for place in other.places
    )


def _twins(uses: TensorUses, use: TensorUse, other: TensorUse) -> bool:
    """Whether two tensors have several dimensions, the same by name, as K and V have."""
    names = uses.subject.shared(DimensionNames)
    rank = len(use.buffer.shape)
    return 1 < rank == len(other.buffer.shape) and all(
        names.same(use.buffer, d, other.buffer, d) for d in range(rank)
    )


def _deliberate(uses: TensorUses, place: GlobalPlace, dim: int) -> bool:
    """Whether a statement takes one element, the same in all iterations: the first, the last."""
    still = not free_vars(place.starts[dim]) & set(uses.subject.ranges)
    return still and as_int(place.extents[dim]) == 1


def _used_whole(uses: TensorUses, use: TensorUse, dim: int) -> tuple[TensorUse, int] | None:
    """Another tensor with a dimension of the same name that one statement goes through."""
    names = uses.subject.shared(DimensionNames)
    back = any((form := affine(p.starts[dim])) is not None and form.looks_back for p in use.places)
    shift = uses.shifted(use, dim) and (back or not _in_product(uses.subject, use, dim))
    symbolic = as_int(use.buffer.shape[dim]) is None
    least = max(1, uses.standing(use, dim) if symbolic else 1)
    if uses.shifted(use, dim) and any(is_meant(uses.subject, p, dim) for p in use.places):
        return None
    for other in uses.uses:
        if other is use or other.buffer in uses.unknown or (shift and other.writes):
            continue
        for k in range(len(other.buffer.shape)):
            if names.same(use.buffer, dim, other.buffer, k) and uses.through(other, k, least):
                return other, k
    return None


def _in_product(subject: Subject, use: TensorUse, dim: int) -> bool:
    """Whether a dimension becomes an axis of a factor of a product."""
    axes = (
        axis
        for p in subject.shared(tile_axes).products
        for pair in p.factors
        for side in pair
        for axis in side
    )
    return any(o.buffer is use.buffer and o.dim == dim for axis in axes for o in axis or ())


def _stops_short(
    uses: TensorUses, use: TensorUse, dim: int, missing: np.ndarray
) -> tuple[ir.Var, Span] | None:
    """The variable whose loop or grid names the dimension it walks, where only the end is left out."""
    present = np.flatnonzero(~missing)
    if len(present) != present[-1] + 1 or uses.shifted(use, dim):
        return None
    subject, names = uses.subject, uses.subject.shared(DimensionNames)
    name = names.words(use.buffer, dim)
    if name is None:
        return None
    counted = _counted_by(subject)
    for place in use.places:
        for var in free_vars(place.starts[dim]):
            at = counted.get(var)
            if at is None or name not in _words(span_text(at, subject.text)):
                continue
            if not any(_goes_on(uses, use, p, dim, var) for p in use.places):
                return var, at
    return None


def _starts_late(
    uses: TensorUses, use: TensorUse, dim: int, missing: np.ndarray
) -> tuple[ir.Var, Span] | None:
    """The variable of a loop that names the dimension and goes through it tile by tile, but for the first
    ones, which nothing else touches. Single elements are begun with the second one on purpose.
    """
    before = int(missing.sum())
    subject, names = uses.subject, uses.subject.shared(DimensionNames)
    name = names.words(use.buffer, dim)
    if name is None or not missing[:before].all():
        return None
    counted = _counted_by(subject)
    for place in use.places:
        form, tile = affine(place.starts[dim]), uses.number(place.extents[dim])
        if form is None or form.constant or tile is None or tile < 2:
            return None
        for var, step in form.terms.items():
            at, first = counted.get(var), as_int(subject.ranges.get(var, (None, None))[0])
            named = at is not None and name in _words(span_text(at, subject.text))
            if at is not None and named and step == tile and first and step * first == before:
                return var, at
    return None


def _goes_on(uses: TensorUses, use: TensorUse, place: GlobalPlace, dim: int, var: ir.Var) -> bool:
    """Whether a loop over single elements that stops short works on the rest of another tensor in a statement
    of its own, `X[d]` and `X[d + D // 2]`: then its extent counts pairs.
    """
    form = affine(place.starts[dim])
    if form is None or form.coefficient(var) != 1 or as_int(place.extents[dim]) != 1:
        return False
    names = uses.subject.shared(DimensionNames)
    for other in uses.subject.shared(global_places):
        for k, start in enumerate(other.starts):
            walked = affine(start)
            shifted = (
                walked is None or len(walked.terms) != len(form.terms) or walked.constant > form.constant
            )
            own = other.buffer is not use.buffer and names.same(use.buffer, dim, other.buffer, k)
            if own and shifted and var in free_vars(start):
                return True
    return False


def _one_block(uses: TensorUses, use: TensorUse, dim: int) -> ir.Var | None:
    """A block variable that walks a dimension, in a grid that has one block along it."""
    launch = uses.subject.launch
    if launch is None:
        return None
    single = [v for v, e in zip(launch.block_vars, launch.grid, strict=False) if as_int(e) == 1]
    if (
        as_int(use.buffer.shape[dim]) is not None
    ):  # a size may be one block long, and a tensor longer on purpose
        single = [
            v for v in single if _is_one(argument_of(launch.span, uses.subject.text, _at(launch, v), ""))
        ]
    return next((v for v in single if all(v in free_vars(p.starts[dim]) for p in use.places)), None)


def _at(launch: Launch, var: ir.Var) -> int:
    return next(k for k, v in enumerate(launch.block_vars) if v.same_as(var))


def _is_one(argument: ast.expr | None) -> bool:
    return isinstance(argument, ast.Constant) and argument.value == 1


def _always_first(
    uses: TensorUses, use: TensorUse, dim: int, missing: np.ndarray, var: ir.Var
) -> Problem | None:
    launch = uses.subject.launch
    assert launch is not None
    return ONE_BLOCK_OF_MANY.at(
        launch.span,
        related=(Related(use.places[0].span, f"{use.places[0].text} is used here"), *declared(use.buffer)),
        var=var.name,
        **words_of(uses, use, dim, missing),
    )


def _counted_by(subject: Subject) -> dict[ir.Var, Span]:
    """The loop or launch that makes a variable."""
    found: dict[ir.Var, Span] = {}
    if subject.launch is not None:
        found |= dict.fromkeys(subject.launch.block_vars, subject.launch.span)
    for node in walk(subject.program.body):
        if isinstance(node, For):
            found |= dict.fromkeys(node.loop.vars, node.loop.span)
    return found


def _words(text: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())


def _beside(
    uses: TensorUses, use: TensorUse, dim: int, missing: np.ndarray, other: TensorUse, other_dim: int
) -> Problem:
    place = use.places[-1]
    return PARTLY_USED.at(
        place.spans[dim] if dim < len(place.spans) else place.span,
        related=declared(use.buffer, other.buffer),
        other=other.buffer.name,
        other_dim=other_dim,
        **words_of(uses, use, dim, missing),
    )


def _counted(
    uses: TensorUses,
    use: TensorUse,
    dim: int,
    missing: np.ndarray,
    var: ir.Var,
    at: Span,
    *,
    rule: Rule = PARTLY_COUNTED,
) -> Problem:
    place = next(p for p in use.places if var in free_vars(p.starts[dim]))
    return rule.at(
        at,
        related=(Related(place.span, f"{place.text} is used here"), *declared(use.buffer)),
        var=var.name,
        **words_of(uses, use, dim, missing),
    )


def words_of(uses: TensorUses, use: TensorUse, dim: int, missing: np.ndarray) -> dict[str, Any]:
    """What messages say of the part of a dimension that is left out."""
    return {
        "does": "writes" if use.writes else "reads",
        "missing": ranges_text(missing),
        "dim": dim,
        "name": uses.subject.shared(DimensionNames).text(use.buffer, dim),
        "buffer": use.buffer.name,
        "when": uses.given(use.buffer.shape[dim]),
    }


def _diagonal(uses: TensorUses, use: TensorUse) -> Problem | None:
    """One variable in two dimensions of each touch, where a tensor of the same dimensions is used whole."""
    shared = [_in_two(uses, place) for place in use.places]
    first = next((s for s in shared if s is not None), None)
    if first is None or None in shared:
        return None
    other = next(
        (o for o in uses.uses if o is not use and _alike(uses, use, o) and uses.plainly_whole(o)), None
    )
    if other is None:
        return None
    var, dim, second = first
    if uses.subject.shared(DimensionNames).same(use.buffer, dim, use.buffer, second) is not False:
        return None  # a square matrix has a diagonal that may be meant
    place = use.places[shared.index(first)]
    return DIAGONAL_USED.at(
        place.spans[second] if second < len(place.spans) else place.span,
        related=declared(use.buffer, other.buffer),
        var=var.name,
        dim=dim,
        second=second,
        buffer=use.buffer.name,
        does="writes" if use.writes else "reads",
        other=other.buffer.name,
    )


def _in_two(uses: TensorUses, place: GlobalPlace) -> tuple[ir.Var, int, int] | None:
    # `i // 64` and `i % 64` are digits of i, which together go everywhere.
    forms = [affine(start) for start in place.starts]
    behind = [set() if form is None else set(form.terms) for form in forms]
    for dim, variables in enumerate(behind):
        for second in range(dim + 1, len(behind)):
            for var in variables & behind[second]:
                extent = uses.number(uses.subject.ranges.get(var, (0, None))[1])
                if extent is not None and extent > 1:
                    return var, dim, second
    return None


def _alike(uses: TensorUses, use: TensorUse, other: TensorUse) -> bool:
    names = uses.subject.shared(DimensionNames)
    rank = len(use.buffer.shape)
    if len(other.buffer.shape) != rank:
        return False
    for dim, sizes in enumerate(zip(use.buffer.shape, other.buffer.shape, strict=True)):
        number = as_int(sizes[0])
        equal = number is not None and number == as_int(sizes[1])
        same = names.same(use.buffer, dim, other.buffer, dim)
        if same is False or (same is None and not equal):
            return False
    return True
