"""missing-on-target: a name of the language that the target's hardware has nothing for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tvm import ir
from tvm_ffi import structural_walk

from tilelang.analysis.subject import Subject
from tilelang.arch.requirements import REQUIREMENTS, requirement_of, requirement_of_call
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.compat import MISSING_ON_TARGET
from tilelang.ir.spans import from_tvm
from tilelang.ir.thread_ops import call_name
from tilelang.ir.tile_program import Alloc, Bind, Do, Evaluate, For, If, Node, Store, walk
from tilelang.ops.tma import is_tma


def check(subject: Subject) -> Iterator[Problem]:
    """At each call, however deep it stands in an expression."""
    for name, span in subject.program.unsupported:
        requirement = requirement_of(name)
        if requirement is not None and not requirement.met_by(subject.target):
            yield MISSING_ON_TARGET.at(span, name=name, target=subject.target, needs=requirement.words())
    for asked in ("import_source", "cluster_dims"):
        name, requirement = REQUIREMENTS[asked]
        if f"tl.{asked}" in subject.program.attrs and not requirement.met_by(subject.target):
            span = subject.program.name_span if subject.launch is None else subject.launch.span
            yield MISSING_ON_TARGET.at(span, name=name, target=subject.target, needs=requirement.words())
    for node in walk(subject.program.body):
        if isinstance(node, Do) and node.record.op == "copy" and is_tma(node.record):
            name, requirement = REQUIREMENTS["tma_copy"]
            if not requirement.met_by(subject.target):
                yield MISSING_ON_TARGET.at(
                    node.span, name=name, target=subject.target, needs=requirement.words()
                )
        if isinstance(node, Alloc) and node.buffer.address is not None:
            name, requirement = REQUIREMENTS["memory_at"]
            if not requirement.met_by(subject.target):
                yield MISSING_ON_TARGET.at(
                    node.span, name=name, target=subject.target, needs=requirement.words()
                )
        for value in _values(node):
            for call in _calls(value):
                found = requirement_of_call(call_name(call).removeprefix("tl."))
                if found is not None and not found[1].met_by(subject.target):
                    name, requirement = found
                    span = from_tvm(call.span) or node.span
                    yield MISSING_ON_TARGET.at(
                        span, name=name, target=subject.target, needs=requirement.words()
                    )


def _values(node: Node) -> tuple[Any, ...]:
    match node:
        case Store():
            return (*node.indices, node.value)
        case Bind() | Evaluate():
            return (node.value,)
        case If():
            return (node.condition,)
        case For():
            return (*node.loop.mins, *node.loop.extents, node.condition)
    return ()


def _calls(value: Any) -> list[ir.Call]:
    found: list[ir.Call] = []
    if isinstance(value, ir.Expr):
        structural_walk(value, (ir.Call, found.append))
    return found
