"""register-pressure: fragments that no thread has registers for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tilelang.analysis.contents import History, histories
from tilelang.analysis.register_tiles import register_tiles
from tilelang.analysis.subject import Subject
from tilelang.arch.tables import features, limits
from tilelang.diagnostics.problem import Fix, Problem, Related
from tilelang.diagnostics.rules.performance import REGISTER_PRESSURE, REGISTERS_ALIVE
from tilelang.ir.tile_program import For, Loop, walk
from tilelang.ir.values import Buffer, as_int
from tilelang.ops.gemm_plan import gemm_plan
from tilelang.ops.operands import dtype_bits, dtype_name, tile_bytes, times
from tilelang.ops.source_edits import keyword_edit

_ROOM = 64  # registers that operands and addresses of a gemm take beside its accumulator


@dataclass(frozen=True, eq=False)
class Held:
    """One fragment, and the 32-bit registers that each thread needs for it at least."""

    history: History
    registers: int

    @property
    def buffer(self) -> Buffer:
        return self.history.buffer


def check(subject: Subject) -> Iterator[Problem]:
    """A warning where a loop carries more than there is from one iteration to the next: no compiler can keep
    that in registers. A hint where so much is alive at one time, which a compiler may reorder.
    """
    limit = registers_per_thread(subject, subject.threads)
    if limit is None:
        return
    held = subject.shared(held_fragments)
    carried = max((_carried(subject, held, loop) for loop in _loops(subject)), key=registers, default=[])
    alive = max((_alive(held, h.history) for h in held), key=registers, default=[])
    # A loop that carries all there is has none left to compute with.
    rule, found = (REGISTER_PRESSURE, carried) if registers(carried) >= limit else (REGISTERS_ALIVE, alive)
    if registers(found) < limit:
        return
    largest = max(found, key=lambda h: h.registers)
    yield rule.at(
        largest.buffer.span,
        related=tuple(Related(h.buffer.span, _part(h)) for h in found if h is not largest),
        fixes=_more_threads(subject, registers(found)),
        count=registers(found),
        parts=", ".join(_part(h) for h in found),
        threads=subject.threads,
        limit=limit,
        target=subject.target,
    )


def registers_per_thread(subject: Subject, threads: int | None) -> int | None:
    """How many each of `threads` can have: a block must fit into the registers of one multiprocessor too."""
    can = features(subject.target)
    if can.registers_per_thread is None or threads is None:
        return can.registers_per_thread
    return min(can.registers_per_thread, can.processor.registers // threads if can.processor else 1 << 16)


def held_fragments(subject: Subject) -> list[Held]:
    """Fragments of known size: as their layout says where a gemm fixes it, else shared out evenly."""
    threads, known = subject.threads, subject.shared(register_tiles)
    if threads is None:
        return []
    found = []
    for history in subject.shared(histories):
        buffer = history.buffer
        bits = dtype_bits(dtype_name(buffer))
        size = tile_bytes(buffer.shape, dtype_name(buffer))
        if buffer.scope != "local.fragment" or bits is None or size is None or not history.touches:
            continue
        per_thread = -(-size * 8 // threads) if buffer not in known else known[buffer].elements * bits
        found.append(Held(history, -(-per_thread // 32)))
    return found


def registers(held: Sequence[Held]) -> int:
    """Of all together."""
    return sum(h.registers for h in held)


def _loops(subject: Subject) -> Iterator[Loop]:
    for node in walk(subject.program.body):
        if not isinstance(node, For) or node.loop.kind == "Parallel":
            continue
        if not all(as_int(e) == 1 for e in node.loop.extents):
            yield node.loop


def _carried(subject: Subject, held: Sequence[Held], loop: Loop) -> list[Held]:
    """Fragments that an iteration leaves to the next: what it does first with them is to read."""
    found = []
    for one in held:
        inside = [t for t in one.history.touches if any(x is loop for x in t.context.loops)]
        if inside and inside[0].mode != "write" and any(t.mode != "read" for t in inside):
            found.append(one)
    return found


def _alive(held: Sequence[Held], at: History) -> list[Held]:
    """Fragments that are in use where `at` is first touched."""
    point = at.touches[0].order

    def around(history: History) -> bool:
        orders = [t.order for t in history.touches]
        return min(orders) <= point <= max(orders)

    return [h for h in held if around(h.history)]


def _part(held: Held) -> str:
    return f"{held.buffer.name} {held.registers} ({times(held.buffer.shape)} {dtype_name(held.buffer)})"


def _more_threads(subject: Subject, count: int) -> tuple[Fix, ...]:
    """Twice the threads, or four times, where that leaves room and every gemm can be shared out so."""
    threads, launch = subject.threads, subject.launch
    if threads is None or launch is None:
        return ()
    for factor in (2, 4):
        wanted = threads * factor
        limit = registers_per_thread(subject, wanted)
        if wanted > limits(subject.target).threads or count > ((limit or 0) - _ROOM) * factor:
            continue
        context = replace(subject.context, threads=wanted)
        plans = [gemm_plan(r, context) for r in subject.records if r.op == "gemm"]
        edit = keyword_edit(launch.span, subject.text, "threads", wanted)
        if edit is not None and all(p is not None and p.warps is not None for p in plans):
            return (Fix(f"Use threads={wanted}", (edit,)),)
    return ()
