"""idle-loop: a loop that writes nothing and calls nothing: it could as well not be there.

What it should do was forgotten, or bound to a name that nobody reads: `x = A[i] * 2` stores nothing. Or all
iterations of a T.Parallel store one and the same, because its variables are used nowhere.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from tilelang.analysis.subject import Subject
from tilelang.diagnostics.problem import Problem, Severity
from tilelang.diagnostics.rules.order import IDLE_LOOP, IDLE_VARIABLES
from tilelang.ir.expressions import loads_of
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Alloc, Bind, For, If, Launch, Node, Store, walk
from tilelang.ir.values import Unknown, as_int

_QUIET = (ast.Pass, ast.Expr, ast.Assign, ast.AnnAssign, ast.For)


def check(subject: Subject) -> Iterator[Problem]:
    """The outermost such loops. Silent where the text decides something: a body that these values of the
    parameters leave out (`if bias:`) is no mistake, and a kernel without results waits to be written.
    """
    if not subject.program.complete or not subject.text:
        return
    yield from _same(subject.program.body)
    idle = list(_idle(subject.program.body))
    if not idle or not any(_does(node) for node in walk(subject.program.body)):
        return
    written = _loops(subject.tree)
    for loop in idle:
        if loop.span.path == subject.program.span.path and _plain(written.get(loop.span.line)):
            yield IDLE_LOOP.at(loop.span, tags=("unnecessary",))


def _same(nodes: list[Node]) -> Iterator[Problem]:
    """Loops of T.Parallel that only store, and that none of their variables makes a difference to.

    A hint: that all threads store one value to one place is permitted. An update of the place itself is what
    parallel-reduction-race looks at.
    """
    for node in walk(nodes):
        if not isinstance(node, For) or node.loop.kind != "Parallel":
            continue
        stores = [s for s in node.body if isinstance(s, Store)]
        extents = [as_int(n) for n in node.loop.extents]
        if len(stores) < len(node.body) or not stores or None in extents:
            continue
        count = math.prod(n for n in extents if n is not None)
        used = {v for s in stores for value in (*s.indices, s.value) for v in free_vars(value)}
        known = not any(isinstance(value, Unknown) for s in stores for value in (*s.indices, s.value))
        again = any(load.source.same_as(s.buffer.var) for s in stores for load in loads_of(s.value))
        if count > 1 and known and not again and not used & set(node.loop.vars):
            names = ", ".join(str(v.name) for v in node.loop.vars)
            problem = IDLE_VARIABLES.at(
                node.loop.span, count=count, names=names, buffer=stores[0].buffer.name
            )
            yield problem.with_severity(Severity.HINT)


def _idle(nodes: list[Node]) -> Iterator[For]:
    for node in nodes:
        if isinstance(node, For) and node.loop.kind != "while" and not any(map(_does, walk(node.body))):
            yield node
        elif isinstance(node, For | Launch):
            yield from _idle(node.body)
        elif isinstance(node, If):
            yield from _idle(node.body)
            yield from _idle(node.orelse)


def _does(node: Node) -> bool:
    return not isinstance(node, Alloc | Bind | For | If | Launch)


def _loops(tree: ast.Module | None) -> dict[int, ast.For]:
    """The loops of a text by the line on which what they iterate over begins."""
    if tree is None:
        return {}
    return {n.iter.lineno: n for n in ast.walk(tree) if isinstance(n, ast.For)}


def _plain(loop: ast.For | None) -> bool:
    """Whether a loop decides nothing and calls nobody but the language: `pass`, names that are bound."""
    if loop is None or not all(isinstance(n, _QUIET) for n in ast.walk(loop) if isinstance(n, ast.stmt)):
        return False
    inside = [n for s in loop.body for n in ast.walk(s)]
    return not any(isinstance(n, ast.IfExp | ast.BoolOp | ast.NamedExpr) for n in inside) and all(
        isinstance(n.func, ast.Attribute) for n in inside if isinstance(n, ast.Call)
    )
