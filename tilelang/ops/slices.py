"""Regions written out as the author would write them, for the edits that quick fixes make."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tilelang.ir.values import Index, Region, Value, as_int
from tilelang.ops.source_edits import text_of

from tvm import ir  # isort: skip
from tilelang.parsing import parse

_LOOP_VARIABLES = ("i", "j", "k", "m")


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
        start, length = _start_text(index, source), _extent_text(extent, source)
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


def _extent_text(extent: Value, source: str) -> str | None:
    """A number, or the name of a size; other expressions have no text that surely stands for them."""
    number = as_int(extent)
    if number is not None:
        return str(number) if number > 0 else None
    return _name_of(extent, source) if isinstance(extent, ir.Var) else None


def _name_of(size: ir.Var, source: str) -> str | None:
    """What the module calls a size: `M = T.dynamic("m")` is `M`, not `m`. None where nothing has its name."""
    try:
        nodes = list(ast.walk(parse(source)))
    except (SyntaxError, ValueError):
        return None
    for node in nodes:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(args=[ast.Constant(value=size.name), *_])
            ):
                return name
    bound = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    return size.name if size.name in bound else None


def _sum(start: str, length: str) -> str:
    if start.isdigit() and length.isdigit():
        return str(int(start) + int(length))
    return f"{start if _binds_tighter(start) else f'({start})'} + {length}"


def _binds_tighter(text: str) -> bool:
    """Whether `text + n` adds n to all of it: `bx << 6` needs brackets."""
    try:
        node = parse(text, mode="eval").body
    except SyntaxError:
        return False
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.FloorDiv | ast.Mod | ast.Pow)
    return isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Constant)


def broadcast_text(src: Region, dst: Region, call: str, indent: str) -> str | None:
    """The loop that copies `src` to every row, column or whole of `dst`, two whole buffers of known shapes.

    call: how the author spells `T.copy`. None where one of them does not repeat over the other.
    """
    sizes = [as_int(e) for e in dst.extents]
    own = [1] * (len(sizes) - len(src.extents)) + [as_int(e) for e in src.extents]
    fits = len(own) == len(sizes) and all(s == o or o == 1 for s, o in zip(sizes, own, strict=True))
    looped = [k for k, size in enumerate(sizes) if size != 1]
    if None in sizes or not fits or own == sizes or len(looped) > len(_LOOP_VARIABLES):
        return None
    names = dict(zip(looped, _LOOP_VARIABLES, strict=False))
    if {*names.values()} & {src.buffer.name, dst.buffer.name} or src.buffer.dtype != dst.buffer.dtype:
        return None
    to = [names.get(k, "0") for k in range(len(sizes))]
    skipped = len(sizes) - len(src.extents)
    of = [names[k] if own[k] != 1 else "0" for k in range(skipped, len(sizes))]
    extents = ", ".join(str(sizes[k]) for k in looped)
    head = f"for {', '.join(names.values())} in {call.removesuffix('copy')}Parallel({extents}):"
    return f"{head}\n{indent}    {dst.text()}[{', '.join(to)}] = {src.text()}[{', '.join(of)}]"
