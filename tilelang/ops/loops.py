"""Tile operations that are one elementwise loop: the Parallel region, and where iterations touch a tile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilelang.ir.build import LOOP_KIND
from tilelang.ir.values import Region, as_int

from tvm import tirx as X  # isort: skip


def parallel_loops(
    names: Sequence[str], extents: Sequence[Any], body: Callable[[list[Any]], Any], span: Any
) -> Any:
    """A Parallel region; `body` makes the statement from the loop variables."""
    loop_vars = [X.Var(n, "int32") for n in names]
    stmt = body(loop_vars)
    for var, extent in reversed(list(zip(loop_vars, extents, strict=True))):
        number = as_int(extent)
        stmt = X.For(
            var,
            X.const(0, "int32"),
            extent if number is None else X.const(number, "int32"),
            X.ForKind.PARALLEL,
            stmt,
            annotations={LOOP_KIND: "Parallel"},
            span=span,
        )
    return stmt


def placed(region: Region, offsets: Sequence[Any]) -> list[Any]:
    """Indices into the region's buffer; offsets go to its last dimensions."""
    lead = len(region.starts) - len(offsets)
    steps = [0] * lead + list(offsets)
    return [
        (X.const(s, "int32") if isinstance(s, int) else s) + o
        if not isinstance(o, int)
        else constant_index(s)
        for s, o in zip(region.starts, steps, strict=True)
    ]


def constant_index(value: Any) -> Any:
    """A Python integer as an int32 constant; expressions unchanged."""
    return X.const(value, "int32") if isinstance(value, int) else value
