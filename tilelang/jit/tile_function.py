"""The tile function of a kernel as users are given it: tvm's function, which also says which parameter is
which tensor.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx as X

from tilelang.language.functions import PrimFunc


class TileFunction(X.PrimFunc, PrimFunc):
    """`kernel.prim_func` and what `get_tir` returns: a `tirx.PrimFunc` with a `buffer_map`.

    tvm's own has none, for its parameters are the tensors themselves: each has a shape and a dtype.
    """

    __slots__ = ()

    @staticmethod
    def of(func: X.PrimFunc) -> TileFunction:
        """The same function as a tile function."""
        if isinstance(func, TileFunction):
            return func
        return TileFunction(func.params, func.body, func.ret_type, func.attrs, func.span)

    @property
    def buffer_map(self) -> dict[Any, Any]:
        """The parameters that are tensors, each with its buffer."""
        return {p: p for p in self.params if X.is_buffer_var(p)}

    def with_attr(self, attr_key_or_dict: Any, attr_value: Any = None) -> TileFunction:
        """The same with further attributes."""
        return TileFunction.of(super().with_attr(attr_key_or_dict, attr_value))

    def without_attr(self, attr_key: str) -> TileFunction:
        """The same without an attribute."""
        return TileFunction.of(super().without_attr(attr_key))
