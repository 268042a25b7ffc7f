"""Regions written out as the author would write them, for the edits that quick fixes make."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tilelang.ir.values import Index, Region, Unknown, Value, as_int, show
from tilelang.ops.source_edits import text_of

from tvm import ir  # isort: skip


def slice_text(region: Region, extents: Sequence[Value], source: str) -> str | None:
    """`A[by * 64:by * 64 + 64, 0:32]`: the region's start with `extents`, one per dimension of its buffer.

    An extent of 1 at a point stays a point. None where the buffer, a start or an extent has no short text of
    its own.
    """
    name = _name_text(region, source)
    if name is None:
        return None
    parts = []
    for dim, extent in enumerate(extents):
        index = region.indices[dim] if region.indices is not None else None
        start, length = _start_text(index, source), _extent_text(extent)
        if start is None or length is None:
            return None
        is_point = as_int(extent) == 1 and (index is None or index.extent is None)
        parts.append(start if is_point else f"{start}:{length if start == '0' else _sum(start, length)}")
    return f"{name}[{', '.join(parts)}]"


def _name_text(region: Region, source: str) -> str | None:
    """How the author names the buffer: `A`, `self.tiles`."""
    written = text_of(region.span, source)
    if region.indices:
        first, span = region.indices[0].span, region.span
        written = written[: first.column - span.column] if first.line == span.line else ""
        written = written.rstrip().removesuffix("[").rstrip()
    return written if written and all(part.isidentifier() for part in written.split(".")) else None


def _start_text(index: Index | None, source: str) -> str | None:
    """What the author wrote as the start; a number where the text is not at hand."""
    if index is None:
        return "0"
    written = text_of(index.span, source)
    start = written if index.extent is None else _before_colon(written)
    if start:
        return start.strip()
    number = as_int(index.start)
    return None if number is None else str(number)


def _before_colon(text: str) -> str:
    """The lower bound of a slice; empty if it has none, or no colon stands outside brackets."""
    depth = 0
    for at, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if char == ":" and depth == 0:
            return text[:at]
    return ""


def _extent_text(extent: Value) -> str | None:
    """A number, or the name of a size; other expressions have no text that surely stands for them."""
    if isinstance(extent, Unknown):
        return None
    return show(extent) if as_int(extent) is not None or isinstance(extent, ir.Var) else None


def _sum(start: str, length: str) -> str:
    if start.isdigit() and length.isdigit():
        return str(int(start) + int(length))
    return f"{start if _binds_tighter(start) else f'({start})'} + {length}"


def _binds_tighter(text: str) -> bool:
    """Whether `text + n` adds n to all of it: `bx << 6` needs brackets."""
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return False
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.FloorDiv | ast.Mod | ast.Pow)
    return isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Constant)
