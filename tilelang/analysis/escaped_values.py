"""rebinding-escapes: a value of a loop or branch that a list, dict or object carries out of it.

Names that a loop binds are followed by the frontend. What is put into a Python container while the body is
traced is a value of that body all the same, and has no meaning behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tvm import ir

from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.python import REBINDING_ESCAPES
from tilelang.diagnostics.span import Span
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Bind, Do, Evaluate, For, If, Launch, Node, Store
from tilelang.ir.values import Region

_WHAT = (
    "is a value of the {kind} at line {line}, which has ended here: Python kept it, the kernel did not; put "
    "what must outlast the {kind} in a T.alloc_var or in a tile"
)


def check(subject: Subject) -> Iterator[Problem]:
    """One problem per variable, where it is first used too late."""
    yield from _Walk().nodes(subject.program.body, None)


class _Walk:
    def __init__(self) -> None:
        self.ended: dict[ir.Var, tuple[str, Span]] = {}  # variables, and the loop or branch that had them
        self.told: set[ir.Var] = set()

    def nodes(self, nodes: list[Node], inside: tuple[str, Span] | None) -> Iterator[Problem]:
        """In program order. inside: what `nodes` are the body of; None for the function's."""
        bound: list[ir.Var] = []
        for node in nodes:
            yield from self._uses(node)
            if isinstance(node, For):
                for var in node.loop.vars:
                    self.ended.pop(var, None)
                here = ("loop", node.span)
                yield from self.nodes(node.body, here)
                self.ended.update(dict.fromkeys(node.loop.vars, here))
            elif isinstance(node, If):
                yield from self.nodes(node.body, ("branch", node.span))
                yield from self.nodes(node.orelse, ("branch", node.span))
            elif isinstance(node, Launch):
                yield from self.nodes(node.body, None)
            elif isinstance(node, Bind):
                bound.append(node.var)
        if inside is not None:
            self.ended.update(dict.fromkeys(bound, inside))

    def _uses(self, node: Node) -> Iterator[Problem]:
        if not self.ended:
            return
        for value in _values(node):
            for var in free_vars(value):
                if var in self.ended and var not in self.told:
                    self.told.add(var)
                    kind, span = self.ended[var]
                    what = _WHAT.format(kind=kind, line=span.line)
                    yield REBINDING_ESCAPES.at(node.span, name=str(var.name), what=what)


def _values(node: Node) -> Iterator[Any]:
    """The scalars that a statement itself reads."""
    if isinstance(node, Store):
        yield from (*node.indices, node.value)
    elif isinstance(node, Bind | Evaluate):
        yield node.value
    elif isinstance(node, For):
        yield from (*node.loop.mins, *node.loop.extents, node.condition)
    elif isinstance(node, If):
        yield node.condition
    elif isinstance(node, Do):
        for operand in node.record.operands.values():
            if isinstance(operand.value, Region):
                yield from (i for index in operand.value.indices or () for i in (index.start, index.extent))
            else:
                yield operand.value
