"""wrong-variable, for two variables of one element that stand in each other's places, which no size tells.

`X[bx * 16 + j, k * 64 + i]` where i counts 16 and j 64; `A[i * 16 + bx]` beside `B[bx * 16 + i]`; `m[bx]`
beside `total[i]`, where m and total are tiles of one block. Tiles of one size hide the first, and a
permutation that all of a kernel's accesses share is its author's business.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from tilelang.analysis import bounds, misplaced_result, partly_used, wrong_variable
from tilelang.analysis.affine import Affine, affine
from tilelang.analysis.comparisons import comparisons
from tilelang.analysis.global_places import GlobalPlace, global_places
from tilelang.analysis.short_passes import in_numbers
from tilelang.analysis.subject import Subject, is_tile, soften
from tilelang.analysis.tensor_use import tensor_uses
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.bounds import BLOCK_IN_TILE, CROSSED_TILES, INTERLEAVED
from tilelang.diagnostics.span import Span
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Access
from tilelang.ir.values import Buffer, Region, Unknown, as_int, show

from tvm import ir  # isort: skip


@dataclass(frozen=True, eq=False)
class _Digits:
    """One index `outer * step + inner` and more: a variable of blocks or of a loop in order, and one of
    T.Parallel that counts `extent`; their factors are `step` and `unit`.
    """

    outer: ir.Var
    step: int
    inner: ir.Var
    unit: int
    extent: int


def check(subject: Subject) -> Iterator[Problem]:
    """The first of a kernel. Silent where another rule names the index."""
    if subject.launch is None or not subject.program.complete:
        return
    for find in (_crossed, _interleaved, _exchanged_steps, _block_in_tile):
        found = next(find(subject), None)
        if found is not None:
            problem, where = found
            if not subject.told_by(
                bounds.check_indices, partly_used.check, misplaced_result.check, wrong_variable.check
            ):
                yield soften(problem, where.context)
            return


_Found = Iterator[tuple[Problem, Access | GlobalPlace]]


def _crossed(subject: Subject) -> _Found:
    """Two dimensions whose tiles have the size of the other's elements."""
    for access in subject.program.accesses:
        if access.buffer.scope != "global":
            continue
        digits = [_digits(subject, access, i.start) for i in access.indices]
        for (d, one), (e, other) in combinations(enumerate(digits), 2):
            if one is None or other is None or one.unit != 1 or other.unit != 1:
                continue
            turned = one.step == other.extent and other.step == one.extent
            if turned and one.step != one.extent and not one.inner.same_as(other.inner):
                problem = CROSSED_TILES.at(
                    access.span,
                    buffer=access.buffer.name,
                    first=d,
                    second=e,
                    step=one.step,
                    extent=one.extent,
                    var=one.inner.name,
                    other=other.inner.name,
                )
                yield problem, access


def _interleaved(subject: Subject) -> _Found:
    """`i * 16 + bx`, where i counts 16 and the kernel goes to `bx * 16 + i` too: to an element, with a copy
    of that tile from the same tensor, or in a condition around this one.
    """
    everything = [
        (access, index.start, found)
        for access in subject.program.accesses
        if access.buffer.scope == "global"
        for index in access.indices
        if (found := _digits(subject, access, index.start)) is not None
    ]
    usual = {
        (d.outer, d.inner, d.step): (show(start), access.span)
        for access, start, d in reversed(everything)
        if d.unit == 1
    }
    tiles = _tiles(subject)
    for access, start, here in everything:
        if here.step != 1 or here.unit != here.extent or here.extent < 2:
            continue
        found = (
            usual.get((here.outer, here.inner, here.extent))
            or tiles.get((access.buffer, here.outer, here.extent))
            or next(_asked(subject, access, here), None)
        )
        if found is not None:
            text, span = found
            problem = INTERLEAVED.at(
                access.span,
                related=(Related(span, f"{text} here"),),
                buffer=access.buffer.name,
                index=show(start),
                usual=text,
                line=span.line,
            )
            yield problem, access


def _tiles(subject: Subject) -> dict[tuple[Buffer, ir.Var, int], tuple[str, Span]]:
    """Where tile by tile of a tensor is touched: by its variable, whose steps are as long as the tile."""
    found: dict[tuple[Buffer, ir.Var, int], tuple[str, Span]] = {}
    for place in subject.shared(global_places):
        for start, extent in zip(place.starts, place.extents, strict=True):
            form, tile = affine(start), as_int(extent)
            for var, step in form.terms.items() if form is not None else ():
                if step == tile:
                    found.setdefault((place.buffer, var, step), (show(start), place.span))
    return found


def _asked(subject: Subject, access: Access, here: _Digits) -> Iterator[tuple[str, Span]]:
    """Conditions around an element that ask about element `inner` of tile `outer`."""
    for guard in access.context.guards:
        for comparison in comparisons(guard.condition, guard.negated):
            for side in (comparison.small, comparison.large):
                there = _digits(subject, access, side)
                if there is not None and _turned(here, there):
                    yield show(side), guard.span


def _turned(here: _Digits, there: _Digits) -> bool:
    same = there.outer.same_as(here.outer) and there.inner.same_as(here.inner)
    return same and there.unit == 1 and there.step == here.extent


def _exchanged_steps(subject: Subject) -> _Found:
    """Two reads of tiles in dimensions of one size: `bz * 128 + k * 32` in one, `k * 128 + bz * 32` in the
    other, of a block variable and one of a loop in order. The one whose tiles overlap is wrong.
    """
    uses = subject.shared(tensor_uses)
    launch = subject.launch
    blocks = set(launch.block_vars) if launch is not None else set()
    reads = [
        (place, dim, form, size)
        for place in subject.shared(global_places)
        if not place.writes
        for dim, start in enumerate(place.starts)
        if (form := in_numbers(uses, start)) is not None and len(form.terms) == 2
        if (size := uses.number(place.buffer.shape[dim])) is not None
    ]
    usual: dict[tuple[object, ...], GlobalPlace] = {}
    for place, _, form, size in reads:
        usual.setdefault((size, form.constant, frozenset(form.terms.items())), place)
    for one, dim, form, size in reads:
        block = next((v for v in form.terms if v in blocks), None)
        loop = next((v for v in form.terms if v not in blocks and v not in one.context.parallel_vars()), None)
        if block is None or loop is None or form.terms[loop] == form.terms[block]:
            continue
        turned = frozenset({(block, form.terms[loop]), (loop, form.terms[block])})
        other = usual.get((size, form.constant, turned))
        if other is not None and form.terms[block] == uses.number(one.extents[dim]):
            problem = INTERLEAVED.at(
                one.spans[dim] if dim < len(one.spans) else one.span,
                related=(Related(other.span, f"{other.text} here"),),
                buffer=one.buffer.name,
                index=show(one.starts[dim]),
                usual=other.text,
                line=other.span.line,
            )
            yield problem, one


def _digits(subject: Subject, access: Access, start: object) -> _Digits | None:
    form = None if isinstance(start, Unknown) else affine(start)
    if form is None:
        return None
    inner = [v for v in form.terms if v in access.context.parallel_vars()]
    outer = [v for v in form.terms if v not in inner and v in _steps(subject, access)]
    if len(inner) != 1 or len(outer) != 1:
        return None
    extent = as_int(subject.ranges.get(inner[0], (0, None))[1])
    return None if extent is None else _made(form, outer[0], inner[0], extent)


def _made(form: Affine, outer: ir.Var, inner: ir.Var, extent: int) -> _Digits:
    return _Digits(outer, form.terms[outer], inner, form.terms[inner], extent)


def _steps(subject: Subject, access: Access) -> set[ir.Var]:
    """Variables of blocks and of loops that run in order."""
    launch = subject.launch
    found = set(launch.block_vars) if launch is not None else set()
    return found | {v for x in access.context.loops if x.kind != "Parallel" for v in x.vars}


def _block_in_tile(subject: Subject) -> _Found:
    """A tile of one block indexed by the block's number, beside another tile of its shape."""
    launch = subject.launch
    assert launch is not None
    reads = [a for a in subject.program.accesses if a.mode == "read" and is_tile(a.buffer)]
    on_line: dict[int, list[Access]] = {}
    for access in reads:
        on_line.setdefault(access.span.line, []).append(access)
    for access in reads:
        for dim, index in enumerate(access.indices):
            var = index.start
            if not isinstance(var, ir.Var) or var not in launch.block_vars:
                continue
            if as_int(subject.ranges.get(var, (0, None))[1]) == 1 or not _filled(subject, access, dim):
                continue
            for other in on_line[access.span.line]:
                if other.context.loops != access.context.loops:
                    continue
                if other.buffer is access.buffer or len(other.indices) != len(access.indices):
                    continue
                own = other.indices[dim].start
                alike = _same_shape(other, access) and isinstance(own, ir.Var)
                if alike and own in access.context.parallel_vars():
                    problem = BLOCK_IN_TILE.at(
                        index.span,
                        related=(Related(other.span, f"{other.buffer.name} has the same shape"),),
                        buffer=access.buffer.name,
                        var=var.name,
                        dim=dim,
                        right=own.name,
                        other=other.buffer.name,
                    )
                    yield problem, access
                    break


def _same_shape(one: Access, other: Access) -> bool:
    sizes = zip(one.buffer.shape, other.buffer.shape, strict=False)
    return len(one.buffer.shape) == len(other.buffer.shape) and all(
        as_int(a) is not None and as_int(a) == as_int(b) for a, b in sizes
    )


def _filled(subject: Subject, access: Access, dim: int) -> bool:
    """Whether the kernel writes a tile element by element, or by operations, in all blocks alike: not a table
    with an entry for each block.
    """
    stores, copies = subject.shared(_writes)
    blocks = set(subject.launch.block_vars) if subject.launch is not None else set()
    starts = [a.indices[dim].start for a in stores.get(access.buffer, ())]
    if any(isinstance(start, Unknown) or free_vars(start) & blocks for start in starts):
        return False
    return all(
        src is not None and (src.buffer.scope != "global" or any(free_vars(s) & blocks for s in src.starts))
        for src in copies.get(access.buffer, ())
    )


def _writes(subject: Subject) -> tuple[dict[Buffer, list[Access]], dict[Buffer, list[Region | None]]]:
    """Of each buffer the stores to its elements, and what is copied to it."""
    stores: dict[Buffer, list[Access]] = {}
    for access in subject.program.accesses:
        if access.mode == "write":
            stores.setdefault(access.buffer, []).append(access)
    copies: dict[Buffer, list[Region | None]] = {}
    for record in subject.records:
        dst = record.region("dst") if record.op == "copy" else None
        if dst is not None:
            copies.setdefault(dst.buffer, []).append(record.region("src"))
    return stores, copies
