"""Tile program -> KernelFacts: what hovers, inlay hints and lenses show; numbers only where certain."""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.analysis.register_tiles import RegisterTile, register_tiles
from tilelang.analysis.shared_memory import SharedTile, shared_tiles, shared_use
from tilelang.analysis.subject import Subject
from tilelang.arch.tables import limits
from tilelang.facts.kernel_facts import BufferFact, KernelFacts, LaunchFact, LoopFact, OpFact, Size, Use
from tilelang.ir.tile_program import For, Loop, walk
from tilelang.ir.values import Buffer, Value, as_int, show
from tilelang.layout.shared import SharedLayout
from tilelang.ops.operands import dtype_bits, dtype_name, scope_name, tile_bytes
from tilelang.ops.registry import TILE_OPS

from tvm import tirx as X  # isort: skip


def kernel_facts(subject: Subject) -> KernelFacts:
    """All facts of one program for one target."""
    program, target = subject.program, subject.target
    tiles = {t.buffer: t for t in subject.shared(shared_tiles)}
    registers = subject.shared(register_tiles)
    use = shared_use(subject)
    positions = {buffer: k for k, buffer in enumerate(program.buffers)}
    return KernelFacts(
        name=program.name,
        qualified_name=program.qualified_name,
        style=program.style,
        span=program.span,
        name_span=program.name_span,
        target=target.name,
        specialisation=program.specialisation,
        missing=program.missing,
        buffers=tuple(_buffer(b, tiles.get(b.storage), registers.get(b)) for b in program.buffers),
        uses=tuple(Use(span, positions[b]) for span, b in program.uses if b in positions),
        ops=_ops(subject),
        loops=_loops(subject),
        launch=_launch(subject),
        shared_bytes=None if use is None else use.bytes,
        shared_exact=use is not None and use.exact,
        shared_limit=limits(target).shared_bytes,
        symbols=tuple(s.name for s in program.symbols),
    )


def size(value: Value) -> Size:
    """A size as facts keep it: a number, or the text an author would write."""
    number = as_int(value)
    return size_text(value) if number is None else number


def size_text(value: Value) -> str:
    """`ceildiv(N, 128)` for what TIRX prints as `(N + 127) // 128`."""
    if isinstance(value, X.FloorDiv) and isinstance(value.a, X.Add):
        step, extra = as_int(value.b), as_int(value.a.b)
        if step is not None and extra == step - 1:
            return f"ceildiv({size_text(value.a.a)}, {step})"
    return show(value)


def _buffer(buffer: Buffer, tile: SharedTile | None, registers: RegisterTile | None) -> BufferFact:
    dtype = dtype_name(buffer)
    is_tensor = buffer.scope == "global"
    return BufferFact(
        name=buffer.name,
        scope=scope_name(buffer),
        shape=() if buffer.scope == "local.var" else tuple(size(d) for d in buffer.shape),
        dtype=dtype or "unknown",
        span=buffer.span,
        name_span=buffer.name_span,
        bytes=tile_bytes(buffer.shape, dtype),
        stages=1 if tile is None else tile.stages,
        layout=_layout(tile, registers),
        registers_per_thread=None if is_tensor else _registers(buffer, registers),
        role=buffer.role,
    )


def _layout(tile: SharedTile | None, registers: RegisterTile | None) -> str | None:
    if registers is not None:
        return registers.text
    layout: SharedLayout | None = None if tile is None else tile.layout
    return None if layout is None else layout.describe()


def _registers(buffer: Buffer, registers: RegisterTile | None) -> int | None:
    """32-bit registers per thread of a fragment whose layout is known, or of private storage."""
    bits = dtype_bits(dtype_name(buffer))
    if bits is None:
        return None
    if registers is not None:
        return -(-registers.elements * bits // 32)
    if buffer.scope == "local.var":
        return -(-bits // 32)
    if buffer.scope == "local":
        total = tile_bytes(buffer.shape, dtype_name(buffer))
        return None if total is None else -(-total // 4)
    return None


def _ops(subject: Subject) -> tuple[OpFact, ...]:
    found: dict[object, OpFact] = {}
    for record in subject.records:
        op = TILE_OPS.get(record.op)
        if op is None or record.span in found:
            continue
        words = op.describe(record, subject.context)
        found[record.span] = OpFact(
            record.op,
            record.span,
            record.callee_span,
            words.summary,
            words.hint,
            words.instruction,
            words.notes,
        )
    return tuple(found.values())


def _loops(subject: Subject) -> tuple[LoopFact, ...]:
    found: dict[object, LoopFact] = {}
    for node in walk(subject.program.body):
        if isinstance(node, For) and node.loop.span not in found:
            found[node.loop.span] = _loop(node.loop, subject.threads)
    return tuple(found.values())


def _loop(loop: Loop, threads: int | None) -> LoopFact:
    extents = tuple(size(e) for e in loop.extents)
    stages = as_int(loop.annotations.get("num_stages", 0)) or 0
    return LoopFact(loop.kind, loop.span, extents, _loop_summary(loop.kind, extents, stages, threads), stages)


def _loop_summary(kind: str, extents: Sequence[Size], stages: int, threads: int | None) -> str:
    count = "×".join(map(str, extents)) or "?"
    if kind == "Parallel":
        return f"{count} elements" + ("" if threads is None else f" over {threads} threads")
    if kind == "while":
        return "runs while its condition holds"
    many = f"{count} iterations"
    return f"{many}, {stages} stages" if kind == "Pipelined" and stages else many


def _launch(subject: Subject) -> LaunchFact | None:
    launch = subject.launch
    if launch is None:
        return None
    return LaunchFact(tuple(size(e) for e in launch.grid), subject.threads, launch.span)
