"""Functions with several launches, launch by launch.

Most rules look at one grid: who runs at the same time, what the blocks of a launch touch. Beside the subject
of the whole function there is one for each launch, in which the other launches are left out. Rules about
where the contents of tensors come from and go to ask the whole, for another launch may write or read them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tilelang.analysis.subject import Subject
from tilelang.ir.tile_program import Alloc, For, If, Launch, Node, walk
from tilelang.ir.values import Buffer


@dataclass(frozen=True, eq=False)
class _Part:
    """A launch, the tiles that its blocks have and the buffers that they touch."""

    launch: Launch
    tiles: frozenset[Buffer]
    touched: frozenset[Buffer]


def launch_by_launch(subject: Subject) -> list[Subject]:
    """One subject for each launch; the subject itself where there are not several."""
    launches = subject.program.launches()
    if len(launches) < 2:
        return [subject]
    parts = [_part(subject, launch) for launch in launches]
    owners: list[_Part | None] = [None] * len(subject.program.accesses)
    for part in parts:
        begin, end = part.launch.accesses
        owners[begin:end] = [part] * (end - begin)
    return [_only(subject, part, parts, owners) for part in parts]


def _part(subject: Subject, launch: Launch) -> _Part:
    program = subject.program
    tiles = frozenset(n.buffer for n in walk(launch.body) if isinstance(n, Alloc))
    records = replace(program, body=[launch]).ops()
    touched = {access.region.buffer.storage for r in records for access in subject.accesses(r)}
    touched |= {a.buffer.storage for a in program.accesses[slice(*launch.accesses)]}
    return _Part(launch, tiles, frozenset(touched))


def _only(subject: Subject, part: _Part, parts: list[_Part], owners: list[_Part | None]) -> Subject:
    program, others = subject.program, [p for p in parts if p is not part]
    tiles: frozenset[Buffer] = frozenset().union(*(p.tiles for p in others))
    alone = replace(
        program,
        body=_without_others(program.body, part.launch),
        buffers=[b for b in program.buffers if b.storage not in tiles],
        accesses=[a for a, of in zip(program.accesses, owners, strict=True) if of is None or of is part],
        problems=[],
    )
    elsewhere: frozenset[Buffer] = frozenset().union(*(p.touched for p in others))
    return Subject(alone, subject.target, subject.text, elsewhere=elsewhere)


def _without_others(nodes: Iterable[Node], launch: Launch) -> list[Node]:
    kept: list[Node] = []
    for node in nodes:
        if isinstance(node, Launch) and node is not launch:
            continue
        if isinstance(node, For):
            node = replace(node, body=_without_others(node.body, launch))
        elif isinstance(node, If):
            body, orelse = _without_others(node.body, launch), _without_others(node.orelse, launch)
            node = replace(node, body=body, orelse=orelse)
        kept.append(node)
    return kept
