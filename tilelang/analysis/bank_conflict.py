"""bank-conflict: threads of a warp touch different words of one bank of shared memory and take turns."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.shared_memory import shared_tiles
from tilelang.analysis.subject import Subject
from tilelang.analysis.warp_accesses import WarpAccess, warp_accesses
from tilelang.arch.tables import features
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.performance import BANK_CONFLICT, BANK_CONFLICT_STRIDE
from tilelang.ir.values import as_int
from tilelang.layout.annotated import annotated_names
from tilelang.layout.banks import conflict_degree
from tilelang.layout.shared import SharedLayout, linear
from tilelang.ops.operands import declared

_MANY = 4
_WIDEST = 16  # bytes of one access


def check(subject: Subject) -> Iterator[Problem]:
    """For row-major tiles; operands of a T.gemm are swizzled, which no other row length would help, and a
    layout that the author gives is what it is.
    """
    if not features(subject.target).spreads_blocks:
        return
    annotated = annotated_names(subject.program.attrs)
    tiles = {t.buffer: t for t in subject.shared(shared_tiles) if t.buffer.name not in annotated}
    for one in subject.shared(warp_accesses):
        buffer = one.access.buffer
        tile = tiles.get(buffer)
        layout = _row_major(one) if tile is not None and tile.layout is None else None
        if layout is None:
            continue
        addresses = [int(layout.offset(index)) * one.bytes for index in one.indices]
        degree = conflict_degree(addresses, one.bytes * one.width)
        if one.merges:  # several turns of the loop at once may be free of conflicts
            joined = conflict_degree(addresses, max(one.bytes, _WIDEST))
            degree = degree if joined >= _MANY else 1
        if degree >= _MANY:
            by_rows = _padded(one, degree)
            yield (BANK_CONFLICT if by_rows else BANK_CONFLICT_STRIDE).at(
                one.access.span,
                related=declared(buffer),
                buffer=buffer.name,
                degree=degree,
                row=as_int(buffer.shape[-1]),
                padded=(as_int(buffer.shape[-1]) or 0) + max(1, 4 // one.bytes),
            )


def _padded(one: WarpAccess, degree: int) -> bool:
    """Whether longer rows help."""
    shape = [as_int(n) or 1 for n in one.access.buffer.shape]
    if len(shape) < 2:
        return False
    shape[-1] += max(1, 4 // one.bytes)
    layout = linear(tuple(shape), one.bytes * 8)
    addresses = [int(layout.offset(index)) * one.bytes for index in one.indices]
    return conflict_degree(addresses, one.bytes * one.width) <= degree // 2


def _row_major(one: WarpAccess) -> SharedLayout | None:
    shape = [as_int(n) for n in one.access.buffer.shape]
    known = tuple(n for n in shape if n is not None)
    return linear(known, one.bytes * 8) if len(known) == len(shape) else None
