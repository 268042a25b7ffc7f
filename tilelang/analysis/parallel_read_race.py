"""parallel-read-race: an iteration of T.Parallel reads what another iteration of the same loop writes."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.collisions import Collision, Crowd, Touched, Touching, cell_text, meetings, touched
from tilelang.analysis.subject import Subject, soften
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.order import PARALLEL_READ_RACE
from tilelang.ir.tile_ops import SYNC, is_call
from tilelang.ir.tile_program import Access, Evaluate, For, If, Launch, Loop, Node
from tilelang.ir.values import Buffer, Unknown
from tilelang.ops.operands import declared

from tvm import ir  # isort: skip


def check(subject: Subject) -> Iterator[Problem]:
    """Once per buffer and loop. A barrier inside the loop may order the two, so it is left alone."""
    with_barriers = subject.shared(_loops_with_barriers)
    for (loop, buffer), found in _by_region(subject).items():
        writes = [a for a in found if a.mode == "write"]
        reads = [a for a in found if a.mode == "read"]
        if writes and reads and loop not in with_barriers:
            problem = _first_race(subject, loop, buffer, writes, reads)
            if problem is not None:
                yield problem


def _by_region(subject: Subject) -> dict[tuple[Loop, Buffer], list[Access]]:
    """Accesses to memory that several threads see, by outermost parallel loop and buffer."""
    regions: dict[tuple[Loop, Buffer], list[Access]] = {}
    for access in subject.program.accesses:
        known = len(access.indices) == len(access.buffer.shape) and not any(
            isinstance(i.start, Unknown) for i in access.indices
        )
        if known and access.buffer.scope in ("shared", "global"):
            loop = next((x for x in access.context.loops if x.kind == "Parallel"), None)
            if loop is not None:
                regions.setdefault((loop, access.buffer), []).append(access)
    return regions


def _first_race(
    subject: Subject, loop: Loop, buffer: Buffer, writes: list[Access], reads: list[Access]
) -> Problem | None:
    """Where an iteration reads what another one writes; each iteration's own element is left out, of which
    parallel-reduction-race speaks.
    """
    own = {(w.context.parallel_vars(), _text(w)) for w in writes}
    crowds: dict[tuple[ir.Var, ...], Crowd] = {}
    for read in reads:
        together, text = read.context.parallel_vars(), _text(read)
        if own <= {(together, text)}:
            continue
        if together not in crowds:
            crowds[together] = _crowd(subject, [w for w in writes if w.context.parallel_vars() == together])
        reading = _surely(subject, read)
        if reading is None or not crowds[together].meets(reading):
            continue
        for write in writes:
            if write.context.parallel_vars() != together or _text(write) == text:
                continue
            writing = _surely(subject, write)
            met = next(meetings(reading, writing), None) if writing is not None else None
            if met is not None:
                return _problem(subject, loop, buffer, read, write, met)
    return None


def _crowd(subject: Subject, accesses: list[Access]) -> Crowd:
    crowd = Crowd()
    for access in accesses:
        found = _surely(subject, access)
        if found is not None:
            crowd.add(found)
    return crowd


def _problem(
    subject: Subject, loop: Loop, buffer: Buffer, read: Access, write: Access, met: Collision
) -> Problem:
    problem = PARALLEL_READ_RACE.at(
        read.span,
        related=(
            Related(write.span, "the element is written here"),
            Related(loop.span, "the parallel loop"),
            *declared(buffer),
        ),
        reader=met.name(met.first),
        writer=met.name(met.second),
        access=cell_text(subject, buffer, [i.start for i in read.indices], met.first),
        buffer=buffer.name,
    )
    return soften(soften(problem, read.context), write.context)


def _surely(subject: Subject, access: Access) -> Touched | None:
    """What an access surely touches, None where that is not known."""
    indices = tuple(i.start for i in access.indices)
    found = touched(subject, Touching(access.context, indices, access.context.parallel_vars()))
    return found if found is not None and found.iterations.sure else None


def _text(access: Access) -> tuple[str, ...]:
    return tuple(str(i.start) for i in access.indices)


def _loops_with_barriers(subject: Subject) -> frozenset[Loop]:
    """Found once for all: generated kernels have loops by the thousands."""
    found: set[Loop] = set()

    def look(nodes: list[Node], around: tuple[Loop, ...]) -> None:
        for node in nodes:
            if isinstance(node, Evaluate) and is_call(node.value, SYNC):
                found.update(around)
            elif isinstance(node, For):
                look(node.body, (*around, node.loop))
            elif isinstance(node, If):
                look(node.body, around)
                look(node.orelse, around)
            elif isinstance(node, Launch):
                look(node.body, around)

    look(subject.program.body, ())
    return frozenset(found)
