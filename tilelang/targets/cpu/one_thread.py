"""What statements for all threads of a block become in one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import tvm_ffi
from tvm import ir
from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.ir.tile_ops import seq
from tilelang.ops.reduce import Reduce
from tilelang.ops.scan import Scan
from tilelang.passes.walk import constant
from tilelang.targets.cpu.nests import index

_FOLDS: dict[str, type[Reduce] | type[Scan]] = {tile_ops.REDUCE: Reduce, tile_ops.SCAN: Scan}


class OneThread:
    """Rewrites for one thread. `axes`: the `thread_extent` attributes, x first, `extents` long.

    arrays: private buffer or scalar -> its array over the threads. values: variable -> its value in the
    thread of a number. `number` stands for the number of the thread in what is rewritten.
    """

    def __init__(self, axes: list[Any], extents: list[Any]) -> None:
        self._axes, self._extents = axes, extents
        self.number = X.Var("thread", "int32")
        self.arrays: dict[int, ir.Var] = {}
        self.values: dict[int, Callable[[Any], Any]] = {}
        self._kept: list[Any] = []  # made variables, so that handles stay theirs

    def loop(self, body: Any, kind: X.ForKind, span: Any) -> Any:
        """`body` for each thread, one loop an axis."""
        own = [X.Var(str(s.node.var.name), "int32") for s in self._axes]
        number: Any = index(0)
        for var, extent in reversed(list(zip(own, self._extents, strict=True))):
            number = var if number is not None and constant(number) == 0 else number * extent + var
        table = {s.node.var.__chandle__(): _like(s, v) for s, v in zip(self._axes, own, strict=True)}
        body = self._rewritten(body, number, table)
        for var, extent in zip(own, self._extents, strict=True):
            body = X.For(var, index(0), index(extent), kind, body, span=span)
        return body

    def at(self, node: Any, number: Any) -> Any:
        """`node` in the thread `number`."""
        axes, left = {}, number
        for s, extent in zip(self._axes, self._extents, strict=True):
            axes[s.node.var.__chandle__()] = _like(s, left % extent)
            left = left // extent
        return self._rewritten(node, number, axes)

    def _rewritten(self, node: Any, number: Any, axes: dict[int, Any]) -> Any:
        """`node` in the thread `number`, whose numbers along the axes are `axes`."""

        def variable(v: ir.Var) -> Any:
            handle = v.__chandle__()
            if v.same_as(self.number):
                return number
            if handle in axes:
                return axes[handle]
            value = self.values.get(handle)
            return v if value is None else self._rewritten(value(number), number, axes)

        def load(e: ir.TensorLoad) -> Any:
            array = self.arrays.get(e.source.__chandle__())
            return e if array is None else X.BufferLoad(array, [number, *e.indices], e.span)

        def region(e: ir.TensorRegion) -> Any:
            array = self.arrays.get(e.source.__chandle__())
            if array is None:
                return e
            return X.BufferRegion(array, [ir.Range.from_min_extent(number, index(1)), *e.region])

        def store(s: X.BufferStore) -> Any:
            array = self.arrays.get(s.buffer.__chandle__())
            return s if array is None else X.BufferStore(array, s.value, [number, *s.indices], s.span)

        return tvm_ffi.structural_map(
            node,
            [
                (X.Evaluate, self._fold),
                (ir.TensorLoad, load),
                (ir.TensorRegion, region),
                (X.BufferStore, store),
                (ir.Var, variable),
            ],
        )

    def _fold(self, stmt: X.Evaluate) -> Any:
        """A reduction or scan that numbers its dimension with the one that arrays have in front, if any has:
        operands that have none are taken as arrays of one. Other statements as they are.
        """
        kind = next((op for name, op in _FOLDS.items() if tile_ops.is_call(stmt.value, name)), None)
        return stmt if kind is None else self._aligned(kind.read(stmt.value))

    def _aligned(self, fold: Reduce | Scan) -> Any:
        arrays = {array.__chandle__() for array in self.arrays.values()}
        regions = {"src": fold.src, "dst": fold.dst}
        alone = {k: r for k, r in regions.items() if r.source.__chandle__() not in arrays}
        if len(alone) == len(regions):
            return fold.call()
        before: dict[int, X.DeclBuffer] = {}
        for name, region in alone.items():
            buffer, handle = region.source, region.source.__chandle__()
            if handle not in before:
                shape, dtype, scope = (1, *buffer.shape), str(buffer.dtype), buffer.scope()
                view = X.decl_buffer(shape, dtype, str(buffer.name), data=buffer.data, scope=scope)
                before[handle] = X.DeclBuffer(view, data=buffer.data, span=fold.span)
                self._kept.append(view)
            first = ir.Range.from_min_extent(index(0), index(1))
            regions[name] = X.BufferRegion(before[handle].buffer, [first, *region.region])
        return seq([*before.values(), replace(fold, dim=fold.dim + 1, **regions).call()])


def _like(axis: Any, number: Any) -> Any:
    """A number along an axis in the dtype of the axis's variable."""
    dtype = str(axis.node.var.ty.dtype)
    return number if dtype == "int32" or isinstance(number, int) else X.Cast(dtype, number)
