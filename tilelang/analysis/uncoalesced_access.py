"""uncoalesced-access: neighbouring threads touch global memory far apart."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.subject import Subject
from tilelang.analysis.warp_accesses import WarpAccess, warp_accesses
from tilelang.arch.tables import features
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.performance import UNCOALESCED_ACCESS
from tilelang.ops.operands import declared

from tvm import ir  # isort: skip

_SECTOR = 32  # bytes that the memory of NVIDIA GPUs moves at a time (CUDA C++ Best Practices Guide 10.2.1)
_MUCH = 4  # times as many sectors as the elements fill


def check(subject: Subject) -> Iterator[Problem]:
    """Where another loop variable runs along the rows, so that exchanging the two would help."""
    if not features(subject.target).spreads_blocks:
        return
    for one in subject.shared(warp_accesses):
        if one.access.buffer.scope != "global" or one.width > 1:
            continue
        addresses = {sum(i * s for i, s in zip(index, one.strides, strict=True)) for index in one.indices}
        sectors = {a * one.bytes // _SECTOR for a in addresses}
        needed = -(-len(addresses) * one.bytes // _SECTOR)
        along = _along_rows(one)
        if along is None or len(sectors) < _MUCH * needed:
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


def _along_rows(one: WarpAccess) -> ir.Var | None:
    """The loop variable that walks along the last dimension, if it is not the last variable."""
    for var in one.variables[:-1]:
        if one.forms[-1].coefficient(var) == 1 and not any(f.coefficient(var) for f in one.forms[:-1]):
            return var
    return None
