"""misplaced-result: elements of one dimension are written to another block of that dimension.

Rows of A from `bx * 64` on that become rows of C from `by * 64` on, M being the name of both, were read with
the wrong variable. Only block variables count: a loop may well mix all blocks of a dimension into each.

Three things say the same where sizes are numbers and have no names: two axes of one result that come from
each other's blocks; an axis of which one operand comes from the block that is written, and another from a
different one; a product whose rows or columns begin a few elements beside those that they are written to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations

from tilelang.analysis import block_write_race, bounds, grid_order, partly_used
from tilelang.analysis.affine import affine
from tilelang.analysis.dimension_names import DimensionNames
from tilelang.analysis.gemm_axes import origin_text
from tilelang.analysis.global_places import global_places
from tilelang.analysis.subject import Subject, soften
from tilelang.analysis.tile_axes import Origin, Written, tile_axes
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.bounds import MISPLACED_RESULT
from tilelang.diagnostics.span import Span
from tilelang.ir.values import Buffer, as_int
from tilelang.ops.operands import declared

from tvm import ir  # isort: skip


def check(subject: Subject) -> Iterator[Problem]:
    """The first of a kernel: a wrong variable misplaces all that comes from one tile."""
    if subject.launch is None:
        return
    blocks = frozenset(subject.launch.block_vars)
    found = next(_misplaced(subject, blocks), None)
    if found is None or subject.told_by(
        bounds.check_indices, partly_used.check, grid_order.check, block_write_race.check
    ):
        return
    written, source = found
    problem = MISPLACED_RESULT.at(
        written.span,
        related=declared(source.buffer, written.to.buffer),
        to=origin_text(subject, written.to),
        source=origin_text(subject, source),
    )
    yield soften(problem, written.context)


def _misplaced(subject: Subject, blocks: frozenset[ir.Var]) -> Iterator[tuple[Written, Origin]]:
    """Axes of results with an origin that lies in another block: those that names show come first."""
    everything = subject.shared(tile_axes).written
    pairs = list(_of_one_write(everything))
    turned = {w for pair in pairs if _turned_over(subject, *pair, blocks) for w in pair}
    for written in everything:
        for source in written.axis or ():
            if written in turned or _compared(subject, written, source):
                continue
            if _elsewhere(subject, written, source, blocks):
                yield written, source
    for one, other in pairs:
        sources = {o.buffer for axis in (one.axis, other.axis) for o in axis or ()}
        # One tensor alone may be turned over block by block on purpose.
        crossed = _crossed(subject, one, other, blocks) and _crossed(subject, other, one, blocks)
        if len(sources) > 1 and crossed:
            yield from ((one, source) for source in one.axis or ())
        elif crossed and one.axis and _exchanged(subject, one, other):
            yield one, one.axis[0]
    for written in everything:
        yield from _mixed(subject, written, blocks)
        yield from _beside(subject, written)


def _of_one_write(everything: Iterable[Written]) -> Iterator[tuple[Written, Written]]:
    """Pairs of axes that one statement writes."""
    writes: dict[tuple[Span, Buffer], list[Written]] = {}
    for written in everything:
        writes.setdefault((written.span, written.to.buffer), []).append(written)
    for together in writes.values():
        yield from combinations(together, 2)


def _elsewhere(subject: Subject, written: Written, source: Origin, blocks: frozenset[ir.Var]) -> bool:
    """Whether both move with the grid, but never together, along one dimension by name."""
    there, here = written.to.start, source.start
    if there is None or here is None or not there.terms or not here.terms:
        return False
    if set(there.terms) & set(here.terms) or not blocks.issuperset([*there.terms, *here.terms]):
        return False
    if all(as_int(subject.ranges.get(v, (0, None))[1]) == 1 for v in (*there.terms, *here.terms)):
        return False  # one block along each: both begin at 0
    names = subject.shared(DimensionNames)
    return names.same(source.buffer, source.dim, written.to.buffer, written.to.dim) is True


def _crossed(subject: Subject, one: Written, other: Written, blocks: frozenset[ir.Var]) -> bool:
    """Whether all that one axis is made of comes from the blocks that the other one is written to."""
    here, there = one.to.start, other.to.start
    if here is None or there is None or not one.axis or not _counts(subject, here.terms, blocks):
        return False
    if set(here.terms) & set(there.terms) or not _counts(subject, there.terms, blocks):
        return False
    return all(o.start is not None and set(o.start.terms) == set(there.terms) for o in one.axis)


def _exchanged(subject: Subject, one: Written, other: Written) -> bool:
    """Whether each of two axes comes, by name, from the dimension that the other one is written to: a
    transpose whose tiles were not transposed.
    """
    if not one.axis or not other.axis or len(one.axis) + len(other.axis) != 2:
        return False
    names = subject.shared(DimensionNames)
    (here,), (there,) = one.axis, other.axis
    return (
        names.same(here.buffer, here.dim, other.to.buffer, other.to.dim) is True
        and names.same(there.buffer, there.dim, one.to.buffer, one.to.dim) is True
        and names.same(here.buffer, here.dim, one.to.buffer, one.to.dim) is False
    )


def _turned_over(subject: Subject, one: Written, other: Written, blocks: frozenset[ir.Var]) -> bool:
    """Whether one tensor's blocks are turned over, tiles staying as they are, where both dimensions have one
    name: a square matrix of blocks may be transposed on purpose.
    """
    sources = {o.buffer for axis in (one.axis, other.axis) for o in axis or ()}
    if len(sources) != 1:
        return False
    names = subject.shared(DimensionNames)
    square = names.same(one.to.buffer, one.to.dim, other.to.buffer, other.to.dim) is True
    return square and _crossed(subject, one, other, blocks) and _crossed(subject, other, one, blocks)


def _counts(subject: Subject, variables: Iterable[ir.Var], blocks: frozenset[ir.Var]) -> bool:
    """Whether these are block variables, each of several blocks or of an open number."""
    found = list(variables)
    return bool(found) and all(
        v in blocks and as_int(subject.ranges.get(v, (0, None))[1]) != 1 for v in found
    )


def _mixed(subject: Subject, written: Written, blocks: frozenset[ir.Var]) -> Iterator[tuple[Written, Origin]]:
    """Elements of the block that is written, combined one by one with those of another block."""
    axis, to = written.axis or (), written.to.start
    if to is None or not _counts(subject, to.terms, blocks):
        return
    if not any(o.start is not None and set(o.start.terms) == set(to.terms) for o in axis):
        return
    for source in axis:
        start = source.start
        if start is None or set(start.terms) & set(to.terms) or not _counts(subject, start.terms, blocks):
            continue
        if not _compared(subject, written, source) and _of_the_result(subject, source, written.to):
            yield written, source


def _compared(subject: Subject, written: Written, source: Origin) -> bool:
    """Whether the block that is written comes from the same tensor as another one: distances. Not where the
    other block is the place of another axis of the result, which is then the one that it belongs to.
    """
    to, start = written.to, source.start
    if to.start is None or start is None:
        return False
    if len(to.buffer.shape) > 1:
        there = subject.shared(_written_terms).get(to.buffer, ())
        if any(d != to.dim and start.terms.items() <= terms for d, terms in there):
            return False
    return any(
        o.buffer is source.buffer
        and o.dim == source.dim
        and o.start is not None
        and set(o.start.terms) == set(to.start.terms)
        for o in written.axis or ()
    )


def _written_terms(subject: Subject) -> dict[Buffer, set[tuple[int, frozenset[tuple[ir.Var, int]]]]]:
    """Of the writes to each tensor: dimensions, and what their indices move with."""
    found: defaultdict[Buffer, set[tuple[int, frozenset[tuple[ir.Var, int]]]]] = defaultdict(set)
    for place in subject.shared(global_places):
        for dim, first in enumerate(place.starts if place.writes else ()):
            form = affine(first)
            if form is not None:
                found[place.buffer].add((dim, frozenset(form.terms.items())))
    return found


def _of_the_result(subject: Subject, source: Origin, to: Origin) -> bool:
    """Whether a dimension is, by size and name, one that the result has too. Windows and phases, which have
    a dimension of their own, are combined with all blocks on purpose.
    """
    names = subject.shared(DimensionNames)
    return any(not names.differ(source.buffer, source.dim, to.buffer, d) for d in range(len(to.buffer.shape)))


def _beside(subject: Subject, written: Written) -> Iterator[tuple[Written, Origin]]:
    """An axis of a product that is shifted by a constant against where it is written, in a dimension of the
    same size. Sums of several shifts are convolutions; one alone leaves an end out and reads past the other.
    Back by less than a tile is the token before, with zeros in front of the first.
    """
    to = written.to.start
    if to is None or not to.terms or written.axis is None or len(written.axis) != 1:
        return
    (source,) = written.axis
    start = source.start
    if start is None or start.terms != to.terms or start.constant == to.constant:
        return
    if to.constant == 0 and start.looks_back:
        return
    names = subject.shared(DimensionNames)
    if names.differ(source.buffer, source.dim, written.to.buffer, written.to.dim):
        return
    factors = (f for p in subject.shared(tile_axes).products for pair in p.factors for f in pair)
    if any(o.buffer is source.buffer and o.dim == source.dim for f in factors for a in f for o in a or ()):
        yield written, source
