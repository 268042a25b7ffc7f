"""Which iterations of a loop can write anything: those beyond the tensors they write need not be there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tilelang.ir.values import as_int

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip

Place = tuple[Sequence[Any], Sequence[Any]]  # shape and indices of an element of a global tensor


def writing_iterations(var: ir.Var, places: Iterable[Place], count: int) -> int:
    """Of the iterations 0, 1, ... `count` - 1 of a loop that does nothing but write these elements of
    tensors: how many, from the first on, may write one. The rest lies past a dimension of constant size,
    which is indexed with the variable and a constant.
    """
    return max((_of_one(var, shape, indices, count) for shape, indices in places), default=count)


def _of_one(var: ir.Var, shape: Sequence[Any], indices: Sequence[Any], count: int) -> int:
    needed = count
    for index, extent in zip(indices, shape, strict=True):
        size, offset = as_int(extent), _offset(var, index)
        if size is not None and offset is not None:
            needed = min(needed, max(0, size - offset))
    return needed


def _offset(var: ir.Var, index: Any) -> int | None:
    """c of an index `var + c`."""
    if isinstance(index, ir.Var):
        return 0 if index.same_as(var) else None
    if isinstance(index, X.Add | X.Sub):
        number, inner = as_int(index.b), _offset(var, index.a)
        if number is None or inner is None:
            return None
        return inner + number if isinstance(index, X.Add) else inner - number
    return None
