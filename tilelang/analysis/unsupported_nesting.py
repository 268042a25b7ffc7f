"""unsupported-nesting: a software pipeline inside a loop whose iterations are spread over the threads."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Edit, Fix, Problem, Related
from tilelang.diagnostics.rules.order import UNSUPPORTED_NESTING
from tilelang.ir.tile_program import For, If, Launch, Loop, Node
from tilelang.ir.values import as_int
from tilelang.ops.source_edits import span_text
from tilelang.parsing import parse


def check(subject: Subject) -> Iterator[Problem]:
    """`T.Pipelined` with stages inside `T.Parallel`; without stages it is an ordinary serial loop."""
    yield from _visit(subject, subject.program.body, None)


def _visit(subject: Subject, nodes: list[Node], parallel: Loop | None) -> Iterator[Problem]:
    for node in nodes:
        if isinstance(node, For):
            loop = node.loop
            stages = as_int(loop.annotations.get("num_stages", 0))
            if parallel is not None and loop.kind == "Pipelined" and stages:
                yield UNSUPPORTED_NESTING.at(
                    loop.span,
                    related=(Related(parallel.span, "the parallel loop"),),
                    fixes=_serial(subject, loop),
                    inner=loop.kind,
                    outer=parallel.kind,
                )
            yield from _visit(subject, node.body, loop if loop.kind == "Parallel" else parallel)
        elif isinstance(node, If):
            yield from _visit(subject, [*node.body, *node.orelse], parallel)
        elif isinstance(node, Launch):
            yield from _visit(subject, node.body, parallel)


def _serial(subject: Subject, loop: Loop) -> tuple[Fix, ...]:
    """The same loop without a pipeline, where the call gives no more than its bounds and the stages."""
    try:
        call = parse(span_text(loop.span, subject.text), mode="eval").body
    except (SyntaxError, ValueError):
        return ()
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return ()
    if [k.arg for k in call.keywords] != ["num_stages"] or not 1 <= len(call.args) <= 2:
        return ()
    bounds = ", ".join(ast.unparse(a) for a in call.args)
    text = f"{ast.unparse(call.func.value)}.serial({bounds})"
    return (Fix("Use T.serial", (Edit(loop.span, text),)),)
