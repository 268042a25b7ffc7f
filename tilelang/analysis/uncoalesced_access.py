"""uncoalesced-access: neighbouring threads touch global memory far apart."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tilelang.analysis.subject import Subject
from tilelang.analysis.warp_accesses import WarpAccess, warp_accesses
from tilelang.arch.tables import features
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.performance import UNCOALESCED_ACCESS, UNCOALESCED_STRIDE
from tilelang.ir.values import Unknown, as_int
from tilelang.ops.operands import declared

from tvm import ir  # isort: skip

_SECTOR = 32  # bytes that the memory of NVIDIA GPUs moves at a time (CUDA C++ Best Practices Guide 10.2.1)
_MUCH = 4  # times as many sectors as the elements fill


def check(subject: Subject) -> Iterator[Problem]:
    """Where another variable of T.Parallel, or a loop of each thread, runs along the rows, so that exchanging
    the two would help.
    """
    if not features(subject.target).spreads_blocks:
        return
    for one in subject.shared(warp_accesses):
        if one.access.buffer.scope != "global" or one.width > 1:
            continue
        addresses = set(one.addresses())
        sectors = {a * one.bytes // _SECTOR for a in addresses}
        needed = -(-len(addresses) * one.bytes // _SECTOR)
        along = _along_rows(one)
        if len(sectors) < _MUCH * needed:
            continue
        if along is None and not one.merges:
            continue
        if along is None:
            apart = {b - a for a, b in pairwise(one.addresses())}
            if len(apart) == 1:
                yield UNCOALESCED_STRIDE.at(
                    one.access.span,
                    related=declared(one.access.buffer),
                    buffer=one.access.buffer.name,
                    apart=_apart(one, apart.pop()),
                    sectors=len(sectors),
                    needed=needed,
                    size=_SECTOR,
                )
            continue
        yield UNCOALESCED_ACCESS.at(
            one.access.span,
            related=declared(one.access.buffer),
            buffer=one.access.buffer.name,
            last=one.variables[-1].name,
            along=along.name,
            sectors=len(sectors),
            needed=needed,
            size=_SECTOR,
        )


def _apart(one: WarpAccess, elements: int) -> str:
    """How far apart neighbouring threads are: in elements where the strides are numbers, else in rows."""
    first, second = one.indices[0], one.indices[1]
    changed = [k for k, (a, b) in enumerate(zip(first, second, strict=True)) if a != b]
    extents = [None if isinstance(n, Unknown) else as_int(n) for n in one.access.buffer.shape]
    known = one.access.buffer.strides is None and None not in extents[min(changed) + 1 :]
    return f"{abs(elements)} elements apart" if known else "rows apart"


def _along_rows(one: WarpAccess) -> ir.Var | None:
    """The loop variable that walks along the last dimension, if it is not the last variable."""
    for var in one.variables[:-1] if one.forms else ():
        if one.forms[-1].coefficient(var) == 1 and not any(f.coefficient(var) for f in one.forms[:-1]):
            return var
    return None
