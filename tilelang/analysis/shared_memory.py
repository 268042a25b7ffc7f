"""Shared memory of a block: each tile's bytes, the versions that pipelining keeps, and how long it lives."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilelang.analysis.contents import histories
from tilelang.analysis.pipelined_loads import pipelined_loads, read_outside, stages_of
from tilelang.analysis.subject import Subject
from tilelang.arch.tables import features, limits, matrix_instructions
from tilelang.ir.tile_program import For, Loop, OpRecord, walk
from tilelang.ir.values import Buffer, Unknown, as_int
from tilelang.layout.gemm_operands import shared_operand
from tilelang.layout.shared import SharedLayout
from tilelang.ops.operands import dtype_bits, dtype_name, tile_bytes


@dataclass(frozen=True, eq=False)
class SharedTile:
    """One shared allocation. `bytes` is one version without padding, None where a size is not known.

    `layout` is set for operands of a T.gemm on matrix instructions, which want a swizzle or padded rows.
    """

    buffer: Buffer
    bytes: int | None
    least: int  # bytes of one version, each symbolic extent at its smallest
    layout: SharedLayout | None
    stages: int
    first: int  # statement in program order that touches it first, and last
    last: int

    @property
    def total(self) -> int | None:
        """All versions, without padding."""
        return None if self.bytes is None else self.bytes * self.stages

    @property
    def at_least(self) -> int:
        """Bytes of all versions, of which there are certainly no fewer."""
        return self.least * self.stages

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
        layout = _operand_layout(buffer, subject.target.kind) if buffer in operands else None
        size = tile_bytes(buffer.shape, dtype_name(buffer))
        least = _least_bytes(subject, buffer) if size is None else size
        found.append(SharedTile(buffer, size, least, layout, versions, first, last))
    return found if _surely_laid_out(subject, found) else [replace(t, layout=None) for t in found]


def _least_bytes(subject: Subject, buffer: Buffer) -> int:
    """Bytes with every symbol as small as it can be; 0 where an extent is not known at all."""
    sizes = [subject.prover.bounds(d)[0] if not isinstance(d, Unknown) else None for d in buffer.shape]
    return tile_bytes([max(n or 0, 0) for n in sizes], dtype_name(buffer)) or 0


def _surely_laid_out(subject: Subject, tiles: list[SharedTile]) -> bool:
    """A lowering that pads rows goes without where they, and its scratch tiles, would not fit."""
    limit, can = limits(subject.target).shared_bytes, features(subject.target)
    if can.operand_layout != "padded" or limit is None:
        return True
    return sum(t.storage or 0 for t in tiles) + can.gemm_scratch_bytes <= limit


def _matrix_operands(subject: Subject) -> set[Buffer]:
    """Shared tiles that matrix instructions read."""
    if not matrix_instructions(subject.target):
        return set()
    operands = (r.region(name) for r in subject.records if r.op == "gemm" for name in ("A", "B"))
    viewed = {b.storage for b in subject.program.buffers if b.view_of is not None}  # these stay row-major
    return {r.buffer for r in operands if r is not None and r.buffer.storage not in viewed}


def _operand_layout(buffer: Buffer, kind: str) -> SharedLayout | None:
    shape, bits = [as_int(d) for d in buffer.shape], dtype_bits(dtype_name(buffer))
    known = tuple(d for d in shape if d is not None)
    if bits is None or len(known) != len(shape) or len(known) < 2:
        return None
    return shared_operand(kind, known, bits)


def live_peak(tiles: list[SharedTile]) -> tuple[int, list[SharedTile]]:
    """The most bytes that are certainly alive at one time, and the tiles alive then."""
    best, at = 0, []
    for point in {t.first for t in tiles}:
        alive = [t for t in tiles if t.first <= point <= t.last and t.at_least]
        size = sum(t.at_least for t in alive)
        if size > best:
            best, at = size, alive
    return best, at


@dataclass(frozen=True)
class SharedUse:
    """Bytes of a block's shared memory; `exact` False: at least so many, only the lowering knows the rest."""

    bytes: int
    exact: bool


def shared_use(subject: Subject) -> SharedUse | None:
    """All stages of all tiles, laid out; None with symbolic sizes.

    Exact where all tiles are alive together, so that none can take another's place, and no operation brings
    memory of its own (`_has_workspace`).
    """
    tiles = [t for t in subject.shared(shared_tiles) if t.last > 0]  # the lowering drops untouched ones
    sizes = [t.storage for t in tiles]
    if None in sizes:
        return None
    together = max((t.first for t in tiles), default=0) <= min((t.last for t in tiles), default=0)
    if not together or _has_workspace(subject):
        return SharedUse(live_peak(tiles)[0], False)
    end = 0
    for tile in sorted(tiles, key=lambda t: -(t.storage or 0)):  # the largest first, as `plan_shared` does
        alignment = 128 if tile.layout is None else tile.layout.alignment
        end = -(-end // alignment) * alignment + (tile.storage or 0)
    return SharedUse(end, True)


def _has_workspace(subject: Subject) -> bool:
    """Whether an operation may need shared memory of its own: reductions over warps, copies between fragments
    that lie in different threads, accumulators of some targets.
    """
    can = features(subject.target)
    if not can.spreads_blocks:
        return False
    for record in subject.records:
        if record.op == "reduce" or (can.gemm_scratch_bytes and record.op == "gemm"):
            return True
        ends = [record.region(name) for name in ("src", "dst")]
        if record.op == "copy" and all(r is not None and r.buffer.scope == "local.fragment" for r in ends):
            return True
    return False


def pipeline_stages(subject: Subject) -> dict[Buffer, tuple[int, list[Loop]]]:
    """Shared tiles that pipelined loops fill ahead: the versions kept, and the loops that do so.

    A copy runs ahead under the conditions of `ops.pipelining`, if its tile is read only in loops that fill
    it. On targets without asynchronous copies every tile has one version.
    """
    found: dict[Buffer, tuple[int, list[Loop]]] = {}
    viewed = {b.storage for b in subject.program.buffers if b.view_of is not None}
    escaped = {h.buffer for h in subject.shared(histories) if h.escaped}
    for load in subject.shared(pipelined_loads):
        if load.hindrance is None and load.tile not in viewed and load.tile not in escaped:
            before, loops = found.get(load.tile, (1, []))
            found[load.tile] = (max(before, stages_of(load.loop)), [*loops, load.loop])
    return {b: entry for b, entry in found.items() if read_outside(subject, b, entry[1]) is None}


def filled_from_global(record: OpRecord) -> Buffer | None:
    """The shared tile that a copy fills wholly from global memory; None for other operations."""
    src, dst = record.region("src"), record.region("dst")
    if record.op != "copy" or src is None or dst is None or not dst.whole:
        return None
    is_load = src.buffer.scope == "global" and dst.buffer.scope == "shared"
    return dst.buffer if is_load else None


def _orders_in(subject: Subject, loop: Loop) -> tuple[int, int]:
    """First and last statement of a loop, numbered as in `contents`: one per node, outer before inner."""
    for order, node in enumerate(walk(subject.program.body), start=1):
        if isinstance(node, For) and node.loop is loop:
            return order, order + sum(1 for _ in walk(node.body))
    raise ValueError("the loop is not in the program")
