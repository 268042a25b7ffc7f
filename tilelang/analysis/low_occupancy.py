"""low-occupancy: so much shared memory, or so many registers, that few warps run on a multiprocessor."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tilelang.analysis.register_pressure import held_fragments, registers
from tilelang.analysis.shared_memory import shared_tiles, shared_use
from tilelang.analysis.subject import Subject
from tilelang.arch.features import Processor
from tilelang.arch.tables import features, limits
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.performance import LOW_OCCUPANCY
from tilelang.ir.values import as_int
from tilelang.ops.operands import bytes_text
from tilelang.ops.source_edits import keyword_span

_FEW_WARPS = 4  # one for each of the four schedulers of a multiprocessor: none waits while another works


def check(subject: Subject) -> Iterator[Problem]:
    """At the launch; silent about grids of one block, and where the block itself is what is too large."""
    processor, threads, launch = features(subject.target).processor, subject.threads, subject.launch
    use, limit = shared_use(subject), limits(subject.target).shared_bytes
    if processor is None or threads is None or launch is None or use is None or use.bytes > (limit or 0):
        return
    grid = [as_int(e) for e in launch.grid]
    if None not in grid and prod(e for e in grid if e is not None) <= 1:
        return
    causes = _blocks(processor, threads, use.bytes, registers(subject.shared(held_fragments)), subject)
    blocks, cause = min(causes, key=lambda c: c[0])
    warps = blocks * -(-threads // subject.target.warp_size)
    others = min(processor.threads // threads, processor.blocks)
    if not 0 < warps <= _FEW_WARPS or blocks >= others:
        return
    tiles = [t for t in subject.shared(shared_tiles) if t.storage]
    yield LOW_OCCUPANCY.at(
        keyword_span(launch.span, subject.text, "threads"),
        related=tuple(Related(t.buffer.span, f"{t.buffer.name} {bytes_text(t.storage or 0)}") for t in tiles),
        blocks=f"{blocks} block" + "s" * (blocks != 1),
        threads=threads,
        warps=warps,
        most=processor.threads // subject.target.warp_size,
        cause=cause,
        target=subject.target,
    )


def _blocks(
    processor: Processor, threads: int, shared: int, held: int, subject: Subject
) -> list[tuple[int, str]]:
    """How many blocks each resource lets run together, and why, in words."""
    warp = subject.target.warp_size
    unit = processor.register_unit
    each = -(-held * warp // unit) * unit * -(-threads // warp)
    found = [(processor.blocks, "")]
    if shared:
        text = f"{bytes_text(shared)} of its {bytes_text(processor.shared_bytes)} of shared memory for each"
        found.append((processor.shared_bytes // (shared + processor.reserved_bytes), text))
    if each:
        text = f"at least {each} of its {processor.registers} registers for each"
        found.append((processor.registers // each, text))
    return found
