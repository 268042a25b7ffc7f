"""unsupported-nesting: a software pipeline inside a loop whose iterations are spread over the threads."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.order import UNSUPPORTED_NESTING
from tilelang.ir.tile_program import For, If, Launch, Loop, Node
from tilelang.ir.values import as_int


def check(subject: Subject) -> Iterator[Problem]:
    """`T.Pipelined` with stages inside `T.Parallel`; without stages it is an ordinary serial loop."""
    yield from _visit(subject.program.body, None)


def _visit(nodes: list[Node], parallel: Loop | None) -> Iterator[Problem]:
    for node in nodes:
        if isinstance(node, For):
            loop = node.loop
            stages = as_int(loop.annotations.get("num_stages", 0))
            if parallel is not None and loop.kind == "Pipelined" and stages:
                yield UNSUPPORTED_NESTING.at(
                    loop.span,
                    related=(Related(parallel.span, "the parallel loop"),),
                    inner=loop.kind,
                    outer=parallel.kind,
                )
            yield from _visit(node.body, loop if loop.kind == "Parallel" else parallel)
        elif isinstance(node, If):
            yield from _visit([*node.body, *node.orelse], parallel)
        elif isinstance(node, Launch):
            yield from _visit(node.body, parallel)
