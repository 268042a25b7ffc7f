"""Layouts as formulas over tvm's variables: what `T.Layout` and `T.Fragment` answer with besides numbers.

`language.index_maps` calls it by name; this module stands above the rooms, because a declaration may
import neither them nor tvm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import ir, sym
from tvm import tirx as X


def variables(count: int) -> list[X.Var]:
    """Variables for the indices of a tile: `_i`, `_j`, `_k`, ..."""
    return [X.Var(f"_{chr(ord('i') + n)}" if n < 18 else f"_i{n}", "int32") for n in range(count)]


def copy_variable() -> X.Var:
    """The variable for the number of a copy."""
    return X.Var("_rep", "int32")


def simplified(value: Any, indices: Sequence[X.Var], extents: Sequence[Any]) -> Any:
    """A formula of `indices`, which run from 0 up to their extents, in a shorter form."""
    analyzer = sym.Analyzer()
    for index, extent in zip(indices, extents, strict=True):
        analyzer.bind(index, ir.Range(0, _size(extent)))
    return analyzer.simplify(X.const(value, "int32") if isinstance(value, int) else value)


def inverse_formulas(shape: Sequence[int], forward: Callable[..., Sequence[Any]]) -> Callable[..., list[Any]]:
    """The indices of an element as formulas of its place.

    Raises ValueError for a map that tvm's arithmetic cannot invert, as one with a swizzle.
    """
    indices = variables(len(shape))
    try:
        mapped = X.IndexMap(indices, list(forward(*indices)), None).inverse(list(shape))
    except RuntimeError as error:
        raise ValueError("tvm's arithmetic finds no formula for the inverse of this layout") from error
    return lambda *place: list(mapped.map_indices(list(place)))


def bounds(values: Sequence[Any], indices: Sequence[X.Var], region: Sequence[Any]) -> list[ir.Range]:
    """The range of each of `values` while the indices run over `region`, a list of ranges."""
    analyzer = sym.Analyzer()
    for index, along in zip(indices, region, strict=True):
        analyzer.bind(index, along)
    found = []
    for value in values:
        within = analyzer.const_int_bound(X.const(value, "int32") if isinstance(value, int) else value)
        found.append(ir.Range(int(within.min_value), int(within.max_value) + 1))
    return found


def reach(values: Sequence[Any], indices: Sequence[X.Var], extents: Sequence[Any]) -> list[Any]:
    """One more than the largest that each formula of `indices` gets, which run from 0 up to their extents.

    A run-time size among the extents is tvm's variable of its name. Raises TypeError for a formula that tvm's
    arithmetic finds no bound of, as one with a swizzle.
    """
    sizes = [_size(n) for n in extents]
    domain = {index: sym.IntervalSet(0, size - 1) for index, size in zip(indices, sizes, strict=True)}
    analyzer = sym.Analyzer()
    for size in sizes:
        if isinstance(size, X.Var):
            analyzer.bind(size, ir.Range(1, 1 << 30))
    found = []
    for value in values:
        formula = X.const(value, "int32") if isinstance(value, int) else value
        largest = analyzer.int_set(formula, domain).max_value
        if str(largest) == "pos_inf":
            raise TypeError(f"tvm's arithmetic finds no bound of {formula} for symbolic extents")
        found.append(analyzer.simplify(largest + 1))
    return found


def _size(extent: Any) -> Any:
    """An extent as tvm has it."""
    return extent if isinstance(extent, int | ir.Expr) else X.Var(str(extent), str(extent.dtype))
