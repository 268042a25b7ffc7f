"""Functions with several launches, launch by launch.

Most rules look at one grid: who runs at the same time, what the blocks of a launch touch. Beside the subject
of the whole function there is one for each launch, in which the other launches are left out. Rules about
where the contents of tensors come from and go to ask the whole, for another launch may write or read them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tilelang.analysis.subject import Subject
from tilelang.ir.tile_program import Alloc, For, If, Launch, Node, TileProgram, walk
from tilelang.ir.values import Buffer


def launch_by_launch(subject: Subject) -> list[Subject]:
    """One subject for each launch; the subject itself where there are not several."""
    launches = subject.program.launches()
    if len(launches) < 2:
        return [subject]
    return [_only(subject, launch, [o for o in launches if o is not launch]) for launch in launches]


def _only(subject: Subject, launch: Launch, others: list[Launch]) -> Subject:
    program = subject.program
    tiles = {n.buffer for other in others for n in walk(other.body) if isinstance(n, Alloc)}
    left_out = {k for other in others for k in range(*other.accesses)}
    kept = [a for k, a in enumerate(program.accesses) if k not in left_out]
    part = replace(
        program,
        body=_without(program.body, others),
        buffers=[b for b in program.buffers if b.storage not in tiles],
        accesses=kept,
        problems=[],
    )
    elsewhere = {a.buffer.storage for k, a in enumerate(program.accesses) if k in left_out}
    elsewhere |= _touched_by_operations(subject, program, others)
    return Subject(part, subject.target, subject.text, elsewhere=frozenset(elsewhere))


def _without(nodes: Iterable[Node], others: list[Launch]) -> list[Node]:
    kept: list[Node] = []
    for node in nodes:
        if isinstance(node, Launch) and any(node is other for other in others):
            continue
        if isinstance(node, For):
            node = replace(node, body=_without(node.body, others))
        elif isinstance(node, If):
            body, orelse = _without(node.body, others), _without(node.orelse, others)
            node = replace(node, body=body, orelse=orelse)
        kept.append(node)
    return kept


def _touched_by_operations(subject: Subject, program: TileProgram, others: list[Launch]) -> set[Buffer]:
    inside = replace(program, body=list(others)).ops()
    return {access.region.buffer.storage for record in inside for access in subject.accesses(record)}
