"""Shared memory of a block: each tile's bytes, the versions that pipelining keeps, and how long it lives."""

from __future__ import annotations

from dataclasses import dataclass

from tilelang.analysis.contents import History, histories
from tilelang.analysis.subject import Subject
from tilelang.ir.tile_program import Do, For, Loop, OpRecord, walk
from tilelang.ir.values import Buffer, as_int
from tilelang.layout.shared import SharedLayout, matrix_operand
from tilelang.ops.operands import dtype_bits, dtype_name, tile_bytes


@dataclass(frozen=True, eq=False)
class SharedTile:
    """One shared allocation. `bytes` is one version without padding, None where a size is not known.

    `layout` is set for operands of a T.gemm on NVIDIA GPUs, whose matrix instructions want a swizzle.
    """

    buffer: Buffer
    bytes: int | None
    layout: SharedLayout | None
    stages: int
    first: int  # statement in program order that touches it first, and last
    last: int

    @property
    def total(self) -> int | None:
        """All versions, without padding."""
        return None if self.bytes is None else self.bytes * self.stages

    @property
    def storage(self) -> int | None:
        """All versions as they are laid out."""
        return self.total if self.layout is None else self.layout.bytes * self.stages


def shared_tiles(subject: Subject) -> list[SharedTile]:
    """All shared tiles in order of allocation."""
    stages, operands = pipeline_stages(subject), _matrix_operands(subject)
    found = []
    for history in subject.shared(histories):
        buffer = history.buffer
        if buffer.scope != "shared":
            continue
        orders = [t.order for t in history.touches] or [0]
        first, last = min(orders), max(orders)
        versions, loops = stages.get(buffer, (1, []))
        for loop in loops:  # copies of later iterations are in flight all through the loop
            touched = _orders_in(subject, loop)
            first, last = min(first, touched[0]), max(last, touched[1])
        layout = _operand_layout(buffer) if buffer in operands else None
        size = tile_bytes(buffer.shape, dtype_name(buffer))
        found.append(SharedTile(buffer, size, layout, versions, first, last))
    return found


def _matrix_operands(subject: Subject) -> set[Buffer]:
    """Shared tiles that a matrix instruction reads whole."""
    if subject.target.kind != "cuda":
        return set()
    operands = (r.region(name) for r in subject.records if r.op == "gemm" for name in ("A", "B"))
    return {r.buffer for r in operands if r is not None and r.whole and r.buffer.view_of is None}


def _operand_layout(buffer: Buffer) -> SharedLayout | None:
    shape, bits = [as_int(d) for d in buffer.shape], dtype_bits(dtype_name(buffer))
    known = tuple(d for d in shape if d is not None)
    if bits is None or len(known) != len(shape) or len(known) < 2:
        return None
    return matrix_operand(known, bits)


def live_peak(tiles: list[SharedTile]) -> tuple[int, list[SharedTile]]:
    """The most bytes that are certainly alive at one time, and the tiles alive then."""
    best, at = 0, []
    for point in {t.first for t in tiles}:
        alive = [t for t in tiles if t.first <= point <= t.last and t.total is not None]
        size = sum(t.total or 0 for t in alive)
        if size > best:
            best, at = size, alive
    return best, at


def pipeline_stages(subject: Subject) -> dict[Buffer, tuple[int, list[Loop]]]:
    """Shared tiles that pipelined loops fill ahead: the versions kept, and the loops that do so.

    The conditions are those under which the pipelining pass lets a copy run early: an unconditional copy of a
    whole tile from global memory in the body of `T.Pipelined(num_stages=n)`, its only write there, read only
    behind it and only in such loops. On targets without asynchronous copies every tile has one version.
    """
    found: dict[Buffer, tuple[int, list[Loop]]] = {}
    if subject.target.kind != "cuda":
        return found
    viewed = {b.storage for b in subject.program.buffers if b.view_of is not None}
    by_buffer = {h.buffer: h for h in subject.shared(histories)}
    for node in walk(subject.program.body):
        if not isinstance(node, For) or not _is_pipeline(subject, node.loop):
            continue
        versions = as_int(node.loop.annotations["num_stages"]) or 0
        for child in node.body:
            target = _filled_from_global(child.record) if isinstance(child, Do) else None
            history = by_buffer.get(target) if target is not None else None
            if history is None or target in viewed or not _runs_early(history, node.loop):
                continue
            before, loops = found.get(history.buffer, (1, []))
            found[history.buffer] = (max(before, versions), [*loops, node.loop])
    return {b: entry for b, entry in found.items() if _read_only_in(by_buffer[b], entry[1])}


def _is_pipeline(subject: Subject, loop: Loop) -> bool:
    stages = as_int(loop.annotations.get("num_stages", 0)) or 0
    return loop.kind == "Pipelined" and stages >= 2 and loop not in subject.loops_with_jumps


def _filled_from_global(record: OpRecord) -> Buffer | None:
    src, dst = record.region("src"), record.region("dst")
    if record.op != "copy" or src is None or dst is None or not dst.whole:
        return None
    is_load = src.buffer.scope == "global" and dst.buffer.scope == "shared"
    return dst.buffer if is_load else None


def _runs_early(history: History, loop: Loop) -> bool:
    """Whether the loop writes the tile once, before it reads it."""
    inside = [t for t in history.touches if any(x is loop for x in t.context.loops)]
    writes = [t for t in inside if t.mode != "read"]
    return not history.escaped and len(writes) == 1 and inside[0] is writes[0]


def _read_only_in(history: History, loops: list[Loop]) -> bool:
    return all(any(x is loop for x in t.context.loops for loop in loops) for t in history.reads)


def _orders_in(subject: Subject, loop: Loop) -> tuple[int, int]:
    """First and last statement of a loop, numbered as in `contents`: one per node, outer before inner."""
    for order, node in enumerate(walk(subject.program.body), start=1):
        if isinstance(node, For) and node.loop is loop:
            return order, order + sum(1 for _ in walk(node.body))
    raise ValueError("the loop is not in the program")
