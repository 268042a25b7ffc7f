"""bank-conflict: threads of a warp touch different words of one bank of shared memory and take turns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilelang.analysis.shared_memory import shared_tiles
from tilelang.analysis.subject import Subject
from tilelang.analysis.warp_accesses import WarpAccess, warp_accesses
from tilelang.arch.tables import features
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.performance import BANK_CONFLICT, BANK_CONFLICT_STRIDE
from tilelang.ir.values import Buffer, Region, as_int
from tilelang.layout.annotated import annotated_names
from tilelang.layout.banks import TileAccess, conflict_degree, fewest_turns
from tilelang.layout.shared import SharedLayout, linear
from tilelang.ops.operands import declared, dtype_bits, dtype_name

_MANY = 4
_WIDEST = 16  # bytes of one access
_LOOPS = ("copy", "fill", "transpose")  # operations that become Parallel loops


def check(subject: Subject) -> Iterator[Problem]:
    """For tiles that nothing lays out: operands of a T.gemm are swizzled, which no other row length would
    help, and a layout that the author gives is what it is.
    """
    if not features(subject.target).spreads_blocks:
        return
    annotated = annotated_names(subject.program.attrs)
    plain = [t.buffer for t in subject.shared(shared_tiles) if t.layout is None]
    layouts = {b: _layout(subject, b) for b in plain if b.name not in annotated}
    for one in subject.shared(warp_accesses):
        buffer = one.access.buffer
        layout = layouts.get(buffer)
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


def _layout(subject: Subject, buffer: Buffer) -> SharedLayout | None:
    """How the lowering (`passes.spread_banks`) stores a tile: it exchanges chunks in one that loops alone
    touch. None where sizes are not known.
    """
    shape, bits = [as_int(n) for n in buffer.shape], dtype_bits(dtype_name(buffer))
    known = tuple(n for n in shape if n is not None)
    if bits is None or len(known) != len(shape):
        return None
    rows = linear(known, bits)
    seen = [one for one in subject.shared(warp_accesses) if one.access.buffer is buffer]
    if not _touched_by_loops(subject, buffer, {id(one.access) for one in seen}):
        return rows
    turns = [TileAccess(tuple(map(np.array, zip(*one.indices, strict=True))), one.width, 1) for one in seen]
    return fewest_turns(rows, turns)


def _touched_by_loops(subject: Subject, buffer: Buffer, seen: set[int]) -> bool:
    """Whether Parallel loops, of which all accesses are `seen`, and operations that become such loops are all
    that touches a tile.
    """
    if any(b is not buffer and b.storage is buffer.storage for b in subject.program.buffers):
        return False
    for access in subject.program.accesses:
        by_loop = id(access) in seen and any(loop.kind == "Parallel" for loop in access.context.loops)
        if access.buffer is buffer and not by_loop:
            return False
    touching = [r for r in subject.records if any(_is(o.value, buffer) for o in r.operands.values())]
    return all(r.op in _LOOPS for r in touching)


def _is(value: object, buffer: Buffer) -> bool:
    return isinstance(value, Region) and value.buffer is buffer
