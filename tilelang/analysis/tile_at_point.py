"""copy-shape, for a tile that begins at one element and lies along other dimensions than its index walks.

`A[b, k * 64, h, 0]` means "from here on": a tile of 64 x 128 takes the last two dimensions, so 64 heads of
one row. That k steps by the 64 rows of the tile along a dimension of which one element is copied, while the
dimension that gets the 64 rows is walked one by one, shows what was meant: `A[b, k * 64:k * 64 + 64, h, :]`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.subject import Subject, soften
from tilelang.diagnostics.problem import Edit, Fix, Problem
from tilelang.diagnostics.rules.shape import COPY_BEGINS_ELSEWHERE
from tilelang.ir.prove import free_vars, substitute
from tilelang.ir.tile_program import OpRecord
from tilelang.ir.values import Region, Unknown, Value, add, as_int, show
from tilelang.ops.operands import declared, times
from tilelang.ops.slices import slice_text
from tilelang.ops.tile_op import RegionAccess

from tvm import ir  # isort: skip


def check(subject: Subject) -> Iterator[Problem]:
    """Copies between a global tensor at a single element and a tile of fewer dimensions."""
    for record in subject.records:
        if record.op != "copy":
            continue
        for access in subject.accesses(record):
            if access.region.buffer.scope == "global" and access.region.is_point:
                found = _elsewhere(subject, access)
                if found is not None:
                    yield soften(_problem(subject, record, access, *found), record.context)


def _elsewhere(subject: Subject, access: RegionAccess) -> tuple[int, int] | None:
    """The dimension that steps by the tile's first extent, and the one that has this extent instead."""
    region, extents = access.region, access.extents
    tile = [k for k, e in enumerate(extents) if as_int(e) != 1]
    if not region.fits_rank or len(tile) < 2 or tile != list(range(tile[0], len(extents))):
        return None
    second = tile[0]
    rows, start = as_int(extents[second]), region.starts[second]
    size = region.buffer.shape[second]
    if rows is None or isinstance(start, Unknown) or isinstance(size, Unknown):
        return None
    if not isinstance(start, ir.Expr) or _step(subject, start) != 1:
        return None
    for first in range(second):
        value = region.starts[first]
        if isinstance(value, ir.Expr) and not isinstance(value, Unknown) and _step(subject, value) == rows:
            return first, second
    return None


def _step(subject: Subject, start: Value) -> int | None:
    """By how much a start grows with the innermost loop, or the one block variable, that it follows."""
    if not isinstance(start, ir.Expr):
        return None
    places = subject.shared(_places)
    inside_first = sorted((v for v in free_vars(start) if v in places), key=places.__getitem__, reverse=True)
    for var in inside_first:
        grown = substitute(start, {var: var + 1})
        step = as_int(subject.prover.simplify(grown - start)) if isinstance(grown, ir.Expr) else None
        if step is not None:
            return step
    return None


def _places(subject: Subject) -> dict[ir.Var, int]:
    """Where the variables of blocks and loops stand in the kernel's text, one behind the other."""
    return {v: k for k, v in enumerate(subject.ranges)}


def _problem(subject: Subject, record: OpRecord, access: RegionAccess, first: int, second: int) -> Problem:
    region: Region = access.region
    extents = list(access.extents)
    extents[first], extents[second] = extents[second], 1
    text = slice_text(region, extents, subject.text)
    return COPY_BEGINS_ELSEWHERE.at(
        record.span_of(access.argument),
        related=declared(region.buffer),
        fixes=()
        if text is None
        else (Fix(f"Use the slice {text}", (Edit(record.span_of(access.argument), text),)),),
        region=region.text(),
        tile=times([e for e in access.extents if as_int(e) != 1]),
        start=show(region.starts[second]),
        end=show(subject.prover.simplify(add(region.starts[second], access.extents[second]))),
        second=second,
        step=show(access.extents[second]),
        first=first,
        instead=f": write {text}" if text is not None else "",
    )
