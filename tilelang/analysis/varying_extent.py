"""copy-shape where a slice's length changes from one iteration to the next, and the other side's does not.

`A[by * 64 : (bx + 1) * 64, ...]` into a tile of 64 rows: start and end were meant to move together. A length
that is cut by a minimum, or read from memory, is a tail on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.affine import affine
from tilelang.analysis.subject import Subject, soften
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.shape import COPY_EXTENT_VARIES
from tilelang.ir.tile_program import OpRecord
from tilelang.ir.values import Region, Unknown, as_int, show
from tilelang.ops.registry import TILE_OPS

from tvm import ir  # isort: skip


def check(subject: Subject) -> Iterator[Problem]:
    """The first dimension of each copy."""
    for record in subject.records:
        src, dst = record.region("src"), record.region("dst")
        if record.op != "copy" or src is None or dst is None or record.context.guards:
            continue
        if next(TILE_OPS["copy"].verify(record, subject.context), None) is not None:
            continue  # one that becomes too short says so itself
        for argument, one, other in (("src", src, dst), ("dst", dst, src)):
            found = next(_varying(subject, one, other), None)
            if found is not None:
                yield soften(_problem(subject, record, argument, one, other, found), record.context)
                break


def _varying(subject: Subject, one: Region, other: Region) -> Iterator[tuple[int, ir.Var, int]]:
    """A dimension whose length depends on a loop or block, and the fixed length that it is matched with."""
    mine = [(d, e) for d, e in enumerate(one.extents) if as_int(e) != 1]
    theirs = [e for e in other.extents if as_int(e) != 1]
    if len(mine) != len(theirs) or any(isinstance(e, Unknown) for e in (*one.extents, *other.extents)):
        return
    for (dim, extent), fixed in zip(mine, theirs, strict=True):
        number, form = as_int(fixed), affine(extent)
        if number is None or form is None:
            continue
        moving = [v for v in form.terms if v in subject.ranges and as_int(subject.ranges[v][1]) != 1]
        if moving and all(v in subject.ranges for v in form.terms):
            yield dim, moving[0], number
            return


def _problem(
    subject: Subject,
    record: OpRecord,
    argument: str,
    one: Region,
    other: Region,
    found: tuple[int, ir.Var, int],
) -> Problem:
    dim, var, fixed = found
    index = one.indices[dim] if one.indices is not None and dim < len(one.indices) else None
    return COPY_EXTENT_VARIES.at(
        index.span if index is not None else record.span_of(argument),
        buffer=one.buffer.name,
        extent=show(subject.prover.simplify(one.extents[dim])),
        dim=dim,
        var=var.name,
        other=other.buffer.name,
        fixed=fixed,
    )
