"""Which buffers hold arbitrary data: no two of their elements can be taken to be equal."""

from __future__ import annotations

from tilelang.analysis.subject import Subject
from tilelang.ir.values import Buffer

from tvm import ir  # isort: skip


def arbitrary_data(subject: Subject) -> frozenset[ir.Var]:
    """Variables of tensors that the kernel is given, and of tiles that hold copies, products or sums of them.

    A tile that is only filled, or written element by element, may hold the same value many times.
    """
    given = {p.buffer for p in subject.program.params if p.buffer is not None and p.buffer.role != "output"}
    found: set[Buffer] = {b for b in given if b is not None}
    while True:
        fresh = {
            dst.storage for src, dst in _flows(subject) if src.storage in found and dst.storage not in found
        }
        if not fresh:
            break
        found |= fresh
    return frozenset(b.var for b in subject.program.buffers if b.known and b.storage in found)


_INPUTS = {
    "copy": ("src", "dst"),
    "gemm": ("A", "C"),
    "gemm_sp": ("A_sparse", "C"),
    "reduce": ("buffer", "out"),
    "scan": ("src", "dst"),
    "transpose": ("src", "dst"),
}


def _flows(subject: Subject) -> list[tuple[Buffer, Buffer]]:
    """From which buffer to which one operations carry data."""
    found = []
    for record in subject.records:
        names = _INPUTS.get(record.op)
        if names is None:
            continue
        src, dst = (record.region(n) for n in names)
        if src is not None and dst is not None:
            found.append((src.buffer, dst.buffer))
    return found
