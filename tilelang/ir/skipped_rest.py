"""`continue` in loops that threads or lanes share: what follows it is the other branch.

Comes in: the body of a T.Parallel or T.vectorized loop. Goes out: the same statements, without a `continue`
that belongs to this loop; where a thread has one iteration there is no loop left that it could continue. A
`continue` that ends only a part of a branch stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.ir.tile_program import If, Jump, Node

SHARED_LOOPS = ("Parallel", "vectorized")


def without_continue(nodes: Sequence[Node]) -> list[Node]:
    """The statements of a loop's body, the rest of the body under the condition of the threads that go on."""
    made: list[Node] = []
    for index, node in enumerate(nodes):
        if _leaves(node):
            return made if isinstance(node, Jump) else [*made, _branches(node, [])]
        if isinstance(node, If) and (_ends(node.body) or _ends(node.orelse)):
            return [*made, _branches(node, nodes[index + 1 :])]
        made.append(node)
    return made


def _branches(node: Node, rest: Sequence[Node]) -> If:
    """A condition, one of whose branches leaves the iteration: the rest goes to the other one."""
    assert isinstance(node, If)
    body = node.body if _ends(node.body) else [*node.body, *rest]
    orelse = node.orelse if _ends(node.orelse) else [*node.orelse, *rest]
    return If(node.condition, without_continue(body), without_continue(orelse), node.span)


def _ends(nodes: Sequence[Node]) -> bool:
    """Whether every way through some statements meets a `continue`."""
    return any(_leaves(node) for node in nodes)


def _leaves(node: Node) -> bool:
    if isinstance(node, Jump):
        return node.kind == "continue"
    return isinstance(node, If) and _ends(node.body) and _ends(node.orelse)
