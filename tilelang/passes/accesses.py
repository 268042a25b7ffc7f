"""Which buffers a statement reads and writes, for tile operations, plain stores and target instructions
alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import tvm_ffi
from tvm import ir
from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.ir.evaluate import is_choice
from tilelang.passes.walk import calls, variables, walk

Mode = Literal["read", "write"]


@dataclass(frozen=True, eq=False)
class Access:
    """One read or write; an update is both. `element` is the TensorLoad, TensorRegion or BufferStore it
    stands in.
    """

    buffer: ir.Var
    mode: Mode
    element: Any


def accesses(stmt: Any) -> Iterator[Access]:
    """What `stmt` touches by itself, without its child statements: reads before writes."""
    if isinstance(stmt, X.BufferStore):
        for i in stmt.indices:
            yield from _reads(i)
        yield from _reads(stmt.value)
        yield Access(stmt.buffer, "write", stmt)
    elif isinstance(stmt, X.Evaluate | X.Bind):
        yield from _call(stmt.value)
    elif isinstance(stmt, X.IfThenElse | X.While):
        yield from _reads(stmt.condition)
    elif isinstance(stmt, X.For):
        yield from _reads(stmt.min)
        yield from _reads(stmt.extent)


def all_accesses(stmt: Any) -> Iterator[Access]:
    """What `stmt` and everything inside it touches, in program order."""
    for part in walk(stmt):
        yield from accesses(part)


def storages(body: Any) -> dict[int, int]:
    """Handle of a view (`T.reshape`, `T.view`) -> handle of the buffer whose memory it names."""
    found: dict[int, int] = {}
    for stmt in walk(body):
        if isinstance(stmt, X.DeclBuffer):
            for base in filter(X.is_buffer_var, variables(stmt.data)):  # not the sizes in its shape
                handle: int = base.__chandle__()
                found[stmt.buffer.__chandle__()] = found.get(handle, handle)
    return found


def barrier_buffers(body: Any) -> set[int]:
    """Handles of buffers that hold mbarriers."""
    made = [c for c in calls(body) if tile_ops.is_call(c, "tl.mbarrier_init")]
    return {c.args[0].args[0].source.__chandle__() for c in made}


def _reads(expr: Any) -> Iterator[Access]:
    if isinstance(expr, ir.Var | X.IntImm):  # most indices are: a walk costs more than it finds
        return
    found: list[Any] = []
    tvm_ffi.structural_walk(expr, ((ir.TensorLoad, ir.TensorRegion), found.append))
    for element in found:
        yield Access(element.source, "read", element)


# Position of the operand that a tile operation writes.
_WRITTEN = {
    tile_ops.COPY: 1,
    tile_ops.TMA_COPY: 1,
    tile_ops.FILL: 0,
    tile_ops.REDUCE: 1,
    tile_ops.SCAN: 1,
    tile_ops.GEMM: 2,
    tile_ops.GEMM_SP: 2,
}


def _call(call: Any) -> Iterator[Access]:
    """Operand roles: the destination of copy, fill and reduce, and the first pointer of an instruction, are
    written.
    """
    if not isinstance(call, ir.Call) or not isinstance(call.op, ir.Op):
        yield from _reads(call)
        return
    if is_choice(call):
        for arg in call.args:
            yield from _call(arg)
        return
    name = str(call.op.name)
    args = list(call.args)
    if name in ("tirx.call_extern", "tirx.call_pure_extern"):
        yield from _foreign(args)
        return
    written = _WRITTEN.get(name)
    kind = str(call.attrs["kind"]) if name == tile_ops.ATOMIC else ""
    if written is None and name.startswith("tl.") and kind != "load":
        written = 0
    only_written = name in (tile_ops.COPY, tile_ops.TMA_COPY, tile_ops.FILL, tile_ops.SCAN) or (
        (name == tile_ops.REDUCE and bool(call.attrs["clear"])) or kind == "store"
    )
    for k, arg in enumerate(args):
        element = _pointee(arg)
        if element is None:
            yield from _reads(arg)
            continue
        for inner in _inner(element):
            yield from _reads(inner)
        if k != written or not only_written:
            yield Access(element.source, "read", element)
    if written is not None and written < len(args):
        element = _pointee(args[written])
        if element is not None:
            yield Access(element.source, "write", element)


def _foreign(args: list[Any]) -> Iterator[Access]:
    """Foreign code may read and write wherever it is given an address, also beyond that element."""
    for arg in args:
        element = _pointee(arg)
        if element is None:
            yield from _reads(arg)
            continue
        yield Access(element.source, "read", element)
        yield Access(element.source, "write", element)


def _pointee(arg: Any) -> Any:
    """The region or the load whose address is taken, if `arg` is one."""
    if isinstance(arg, ir.TensorRegion):
        return arg
    if isinstance(arg, ir.Call) and isinstance(arg.op, ir.Op) and arg.op.name == "tirx.address_of":
        return arg.args[0]
    return None


def _inner(element: Any) -> list[Any]:
    if isinstance(element, ir.TensorRegion):
        return [e for r in element.region for e in (r.min, r.extent)]
    return list(element.indices)
