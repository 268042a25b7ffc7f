"""Whether an index is shifted on purpose: by a constant that has a name, `k * 32 + lag`.

A tensor read a few elements beside a tile's place looks like an off-by-one where a number does it,
`k * 32 + 1`. Reads outside give zero, so that a kernel may shift: who calls the distance by a name knows
that it is there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tilelang.analysis.global_places import GlobalPlace, global_places
from tilelang.analysis.subject import Subject
from tilelang.ir.values import Buffer
from tilelang.ops.source_edits import span_text
from tilelang.parsing import parse


def meant_shift(subject: Subject, buffer: Buffer, dim: int) -> bool:
    """Whether some place of a tensor is written so along a dimension."""
    return any(p.buffer is buffer and is_meant(subject, p, dim) for p in subject.shared(global_places))


def is_meant(subject: Subject, place: GlobalPlace, dim: int) -> bool:
    """Whether one place adds a name to its index that is neither a block's nor a loop's."""
    if dim >= len(place.spans):
        return False
    try:
        node: ast.expr = parse(span_text(place.spans[dim], subject.text).strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return False
    if isinstance(node, ast.Slice) and node.lower is not None:
        node = node.lower
    moving = {str(v.name) for v in subject.ranges}
    named = [names for term in _terms(node) if (names := _names(term))]
    return any(not names & moving for names in named) and len(named) > 1


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield from _terms(node.left)
        yield from _terms(node.right)
    else:
        yield node


def _names(node: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
