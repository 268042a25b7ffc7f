"""cpu-thread-code: code for each thread of a block, on the target that has none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.compat import CPU_THREAD_CODE
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Bind, Do, Evaluate, For, If, Node, Store, walk
from tilelang.ir.values import Unknown


def check(subject: Subject) -> Iterator[Problem]:
    """The first statement that uses the index of a thread."""
    if subject.target.kind != "cpu":
        return
    for launch in subject.program.launches():
        for node in walk(launch.body):
            used = set().union(*(_variables(v) for v in _values(node))) & set(launch.thread_vars)
            if used:
                yield CPU_THREAD_CODE.at(node.span, thread=str(min(used, key=str).name))
                return


def _values(node: Node) -> tuple[Any, ...]:
    match node:
        case Store():
            return (*node.indices, node.value)
        case Bind() | Evaluate():
            return (node.value,)
        case If():
            return (node.condition,)
        case For():
            return (*node.loop.mins, *node.loop.extents, node.loop.step, node.condition)
        case Do():
            regions = [o.value for o in node.record.operands.values() if hasattr(o.value, "starts")]
            return tuple(v for r in regions for v in (*r.starts, *r.extents))
    return ()


def _variables(value: Any) -> set[Any]:
    return set() if value is None or isinstance(value, Unknown) else set(free_vars(value))
