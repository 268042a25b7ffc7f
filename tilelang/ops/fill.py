"""T.fill and T.clear: set every element of a buffer or a slice to one value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tilelang.diagnostics.problem import Problem
from tilelang.ir import tile_ops
from tilelang.ir.spans import to_tvm
from tilelang.ir.tile_program import OpRecord
from tilelang.ir.values import show
from tilelang.ops.build import attributes, convert, operand_region
from tilelang.ops.operands import dtype_name, scope_name, times
from tilelang.ops.tile_op import CheckContext, OpDescription, RegionAccess, TileOp

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip


@dataclass(frozen=True, eq=False)
class Fill:
    """`dst[...] = value`, the value already of dst's dtype. `clears`: its author wrote T.clear."""

    dst: Any  # TensorRegion
    value: Any
    span: Any = None
    clears: bool = False

    def call(self) -> Any:
        """The statement `tl.fill(dst, value)`."""
        attrs = {"clears": True} if self.clears else None
        made = tile_ops.call(tile_ops.FILL, [self.dst, self.value], attrs, span=self.span)
        return X.Evaluate(made, self.span)

    @staticmethod
    def read(call: ir.Call) -> Fill:
        """The operation a `tl.fill` call stands for."""
        return Fill(call.args[0], call.args[1], span=call.span, **attributes(call))


def accesses(record: OpRecord) -> Sequence[RegionAccess]:
    """The one region that is written."""
    region = record.region("buffer")
    return [] if region is None else [RegionAccess("buffer", region, "write", region.extents)]


def build(record: OpRecord) -> Any:
    """`tl.fill` with the value in the buffer's dtype; T.clear gives no value and means zero."""
    region = record.region("buffer")
    if region is None:
        raise ValueError("the buffer of T.fill must be known")
    value = convert(record.value("value", 0), str(region.buffer.dtype))
    clears = record.callee == "T.clear"
    return Fill(operand_region(region, region.extents), value, to_tvm(record.span), clears).call()


def verify(record: OpRecord, context: CheckContext) -> Iterator[Problem]:
    """Nothing of its own: that the slice stays inside is a rule about all operations, in `analysis`."""
    yield from ()


def describe(record: OpRecord, context: CheckContext) -> OpDescription:
    """`128×128 float32 fragment C_local = 0`."""
    region = record.region("buffer")
    if region is None:
        return OpDescription("fills a tile", "")
    tile = f"{times(region.extents)} {dtype_name(region.buffer) or 'unknown'}"
    value = show(record.value("value", 0))
    return OpDescription(f"{tile}, {scope_name(region.buffer)} {region.text()} = {value}", tile)


FILL = TileOp("fill", verify, accesses, describe, build)
