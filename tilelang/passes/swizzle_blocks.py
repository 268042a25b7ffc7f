"""T.use_swizzle: another order of blocks, so that blocks that run together share operands in the L2 cache.

In:  a function with the attribute `tl.block_swizzle` = "row:10" (order and panel size) and a grid of two
     dimensions.
Out: the hardware's block numbers are remapped at the top of the body. Blocks are taken panel by panel; a
     panel is `size` rows ("row") or columns ("column") of blocks, walked across its short side first. Every
     block still runs exactly once.
Not: grids of one dimension, which stay as they are.
"""

from __future__ import annotations

from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.ir.tile_ops import seq
from tilelang.passes.walk import index, remake, walk

BLOCK_SWIZZLE = "tl.block_swizzle"


def swizzle_blocks(func: X.PrimFunc) -> X.PrimFunc:
    """Apply the pass. Raises ValueError for an attribute it cannot read."""
    if BLOCK_SWIZZLE not in func.attrs:
        return func
    order, _, size = str(func.attrs[BLOCK_SWIZZLE]).partition(":")
    if order not in ("row", "column") or not size.isdigit() or int(size) < 1:
        raise ValueError(f"{BLOCK_SWIZZLE} is {func.attrs[BLOCK_SWIZZLE]!r}, expected 'row:N' or 'column:N'")
    axes = {
        str(s.node.thread_tag): (s.node.var, s.value)
        for s in walk(func.body)
        if isinstance(s, X.AttrStmt) and s.attr_key == "thread_extent"
    }
    if "blockIdx.x" not in axes or "blockIdx.y" not in axes:
        return func
    (x, width), (y, height) = axes["blockIdx.x"], axes["blockIdx.y"]
    new_x, new_y = X.Var(f"{x.name}_launched", "int32"), X.Var(f"{y.name}_launched", "int32")
    if order == "row":
        across, along = _panels(new_y * width + new_x, int(size), width, height)
        binds = [X.Bind(x, along), X.Bind(y, across)]
    else:
        across, along = _panels(new_y * width + new_x, int(size), height, width)
        binds = [X.Bind(y, along), X.Bind(x, across)]
    return func.with_body(_rebind(func.body, {x: new_x, y: new_y}, binds))


def _panels(number: Any, size: int, length: Any, depth: Any) -> tuple[Any, Any]:
    """(position across all panels, position along a panel) of the `number`-th block.

    Panels are `size` deep and `length` long; the last one is as deep as what is left of `depth`.
    """
    full = length * size
    panel, inside = number // full, number % full
    deep = X.Min(index(size), depth - panel * size)
    return panel * size + inside % deep, inside // deep


def _rebind(stmt: Any, new: dict[ir.Var, ir.Var], binds: list[Any]) -> Any:
    if not isinstance(stmt, X.AttrStmt):
        return seq([*binds, *(list(stmt.seq) if isinstance(stmt, X.SeqStmt) else [stmt])])
    inner = _rebind(stmt.body, new, binds)
    var = new.get(stmt.node.var)
    if var is None:
        return remake(stmt, lambda _: inner)
    node = X.IterVar(None, var, X.IterVar.ThreadIndex, str(stmt.node.thread_tag))
    return X.AttrStmt(node, stmt.attr_key, stmt.value, inner, stmt.span)
