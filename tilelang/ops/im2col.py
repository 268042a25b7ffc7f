"""T.im2col: the windows of a convolution as rows of a matrix tile, as one elementwise loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.shape import IM2COL_SHAPE
from tilelang.ir.spans import to_tvm
from tilelang.ir.tile_program import OpRecord
from tilelang.ir.values import show
from tilelang.ops.build import convert
from tilelang.ops.loops import constant_index, parallel_loops, placed
from tilelang.ops.operands import declared, dtype_name, scope_name, shape_text, times
from tilelang.ops.tile_op import CheckContext, OpDescription, RegionAccess, TileOp

from tvm import tirx as X  # isort: skip


def accesses(record: OpRecord) -> Sequence[RegionAccess]:
    img, col = record.region("img"), record.region("col")
    found = [] if img is None else [RegionAccess("img", img, "read", img.extents)]
    return found if col is None else [*found, RegionAccess("col", col, "write", col.extents)]


def build(record: OpRecord) -> Any:
    """col[i, j] = img at the pixel of output m = nhw_step · block_m + i, tap k = c_step · block_k + j."""
    img, col = record.region("img"), record.region("col")
    if img is None or col is None:
        raise ValueError("both operands of T.im2col must be known")
    span = to_tvm(record.span)
    _, height, width, channels = (constant_index(n) for n in img.buffer.shape)
    kernel, stride, dilation, pad = (
        constant_index(record.value(n)) for n in ("kernel", "stride", "dilation", "pad")
    )
    out_h = (height + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    out_w = (width + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    block_m, block_k = (constant_index(n) for n in col.extents[-2:])

    def move(v: list[Any]) -> Any:
        m = constant_index(record.value("nhw_step")) * block_m + v[0]
        k = constant_index(record.value("c_step")) * block_k + v[1]
        pixel = m % (out_h * out_w)
        row = pixel // out_w * stride + k // (kernel * channels) * dilation - pad
        column = pixel % out_w * stride + k // channels % kernel * dilation - pad
        at = [m // (out_h * out_w), row, column, k % channels]
        value = X.BufferLoad(img.buffer.var, at)
        return X.BufferStore(col.buffer.var, convert(value, str(col.buffer.dtype)), placed(col, v), span)

    return parallel_loops("ij", col.extents[-2:], move, span)


def verify(record: OpRecord, context: CheckContext) -> Iterator[Problem]:
    """window-shape."""
    img, col = record.region("img"), record.region("col")
    for region, name, rank in ((img, "img", 4), (col, "col", 2)):
        if region is None or len(region.extents) == rank or (name == "col" and len(region.extents) > rank):
            continue
        yield IM2COL_SHAPE.at(
            record.span_of(name),
            related=declared(region.buffer),
            buffer=region.text(),
            shape=shape_text(region.extents),
            expected="(N, H, W, C)" if name == "img" else "(pixels, taps)",
        )


def describe(record: OpRecord, context: CheckContext) -> OpDescription:
    img, col = record.region("img"), record.region("col")
    if img is None or col is None:
        return OpDescription("gathers the windows of a convolution", "")
    kernel = show(record.value("kernel"))
    text = f"{times(col.extents)} {dtype_name(img.buffer) or 'unknown'}, windows of {kernel}×{kernel}"
    way = f"{scope_name(img.buffer)} {img.buffer.name} → {scope_name(col.buffer)} {col.text()}"
    return OpDescription(f"{text}, {way}", text, notes=("outside the image, reads give 0",))


IM2COL = TileOp("im2col", verify, accesses, describe, build)
