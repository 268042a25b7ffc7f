"""T.im2col: the windows of a convolution as rows of a matrix tile, as one elementwise loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.diagnostics.rules.shape import IM2COL_SHAPE
from tilelang.ir.spans import to_tvm
from tilelang.ir.tile_program import OpRecord
from tilelang.ir.values import Region, Unknown, as_int, show
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
        first = constant_index(record.value("c_step")) * block_k
        # A tile of a part of one tap's channels: the tap is that of its first column.
        if in_one_tap(record):
            tap, channel = first // channels, first % channels + v[1]
        else:
            tap, channel = (first + v[1]) // channels, (first + v[1]) % channels
        pixel = m % (out_h * out_w)
        row = pixel // out_w * stride + tap // kernel * dilation - pad
        column = pixel % out_w * stride + tap % kernel * dilation - pad
        at = [constant_index(img.starts[0]) + m // (out_h * out_w), row, column, channel]
        value = X.BufferLoad(img.buffer.var, at)
        return X.BufferStore(col.buffer.var, convert(value, str(col.buffer.dtype)), placed(col, v), span)

    return parallel_loops("ij", col.extents[-2:], move, span)


def in_one_tap(record: OpRecord) -> bool:
    """Whether each tile holds channels of one tap of the window, neighbours in memory."""
    img, col = record.region("img"), record.region("col")
    channels = as_int(img.buffer.shape[-1]) if img is not None and len(img.buffer.shape) == 4 else None
    width = as_int(col.extents[-1]) if col is not None else None
    return channels is not None and width is not None and width > 0 and channels % width == 0


def verify(record: OpRecord, context: CheckContext) -> Iterator[Problem]:
    """window-shape, and numbers that no window has."""
    img, col = record.region("img"), record.region("col")
    if img is not None and not _has_whole_images(img, context):
        yield _problem(
            record, img, "img", "whole images (N, H, W, C)" if len(img.extents) == 4 else "(N, H, W, C)"
        )
    if col is not None and not _is_matrix(col):
        yield _problem(record, col, "col", "(pixels, taps)")
    for name, least in (("kernel", 1), ("stride", 1), ("dilation", 1), ("pad", 0)):
        number = as_int(record.value(name))
        if number is not None and number < least:
            what = f"{name} is {number}, but must be at least {least}"
            yield BAD_ARGUMENTS.at(record.span_of(name), callee="T.im2col", what=what)


def _has_whole_images(img: Region, context: CheckContext) -> bool:
    """Some images of a batch, with all their rows, columns and channels: windows go past the edges."""
    if len(img.extents) != 4:
        return False
    equal = context.prover.equal
    return all(
        equal(extent, size) is not False and (isinstance(start, Unknown) or as_int(start) == 0)
        for start, extent, size in list(zip(img.starts, img.extents, img.buffer.shape, strict=True))[1:]
    )


def _is_matrix(col: Region) -> bool:
    """Two dimensions, behind others of one element."""
    lead = col.extents[:-2]
    return len(col.extents) >= 2 and all(isinstance(e, Unknown) or as_int(e) == 1 for e in lead)


def _problem(record: OpRecord, region: Region, argument: str, expected: str) -> Problem:
    return IM2COL_SHAPE.at(
        record.span_of(argument),
        related=declared(region.buffer),
        buffer=region.text(),
        shape=shape_text(region.extents),
        expected=expected,
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
