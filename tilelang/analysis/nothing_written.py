"""nothing-written: a kernel that writes to no tensor, so that nobody can tell whether it ran."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.contents import histories
from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.order import NOTHING_WRITTEN
from tilelang.ir.tile_program import Alloc, Do, Evaluate, For, Launch, Node, Store, walk
from tilelang.ops.registry import TILE_OPS


def check(subject: Subject) -> Iterator[Problem]:
    """Silent about empty bodies, which wait to be written, and about calls for an effect, such as a print."""
    program = subject.program
    if not program.complete or any(b.role == "output" for b in program.buffers):
        return  # an output that nothing is written to is output-not-written
    for launch in program.launches():
        body = list(walk(launch.body))
        works = any(not isinstance(n, Alloc) for n in body)
        if works and not any(_may_write(subject, n) for n in body):
            yield NOTHING_WRITTEN.at(launch.span, related=tuple(_lost(subject)))


def _lost(subject: Subject) -> Iterator[Related]:
    """The last writes to tiles that nothing reads, and loops that do nothing: there results get lost."""
    for history in subject.shared(histories):
        if history.writes and not history.reads:
            yield Related(history.writes[-1].span, f"{history.buffer.name} is written here, and read nowhere")
    for node in walk(subject.program.body):
        if isinstance(node, For) and not node.body:
            yield Related(node.loop.span, "this loop does nothing")


def _may_write(subject: Subject, node: Node) -> bool:
    if isinstance(node, Store):
        return node.buffer.scope == "global"
    if isinstance(node, Do):
        accesses = subject.accesses(node.record)
        return node.record.op not in TILE_OPS or any(
            a.mode != "read" and a.region.buffer.scope == "global" for a in accesses
        )
    return isinstance(node, Evaluate | Launch)
