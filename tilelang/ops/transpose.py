"""T.transpose: a tile, or each plane of a larger one, turned over by one elementwise loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.shape import TRANSPOSE_SHAPE
from tilelang.ir.spans import to_tvm
from tilelang.ir.tile_program import OpRecord
from tilelang.ir.values import Region, Unknown, Value, as_int
from tilelang.ops.build import convert
from tilelang.ops.loops import parallel_loops, placed
from tilelang.ops.operands import declared, dtype_name, scope_name, shape_text, times
from tilelang.ops.tile_op import CheckContext, OpDescription, RegionAccess, TileOp

from tvm import tirx as X  # isort: skip


def _pair(record: OpRecord) -> tuple[Region | None, Region | None]:
    return record.region("src"), record.region("dst")


def accesses(record: OpRecord) -> Sequence[RegionAccess]:
    src, dst = _pair(record)
    found = [] if src is None else [RegionAccess("src", src, "read", src.extents)]
    return found if dst is None else [*found, RegionAccess("dst", dst, "write", dst.extents)]


def build(record: OpRecord) -> Any:
    src, dst = _pair(record)
    if src is None or dst is None:
        raise ValueError("both operands of T.transpose must be known")
    span, planes = to_tvm(record.span), src.extents[:-2] if _planes(src, dst) else ()

    def move(v: list[Any]) -> Any:
        *plane, i, j = v
        value = X.BufferLoad(src.buffer.var, placed(src, [*plane, i, j]))
        place = placed(dst, [*plane, j, i])
        return X.BufferStore(dst.buffer.var, convert(value, str(dst.buffer.dtype)), place, span)

    names = [*(f"p{n}" for n in range(len(planes))), "i", "j"]
    return parallel_loops(names, [*planes, *src.extents[-2:]], move, span)


def _planes(src: Region, dst: Region) -> bool:
    """Whether both have dimensions before the last two that count."""
    lead = [as_int(e) for e in src.extents[:-2]]
    return len(src.extents) == len(dst.extents) and any(e != 1 for e in lead)


def verify(record: OpRecord, context: CheckContext) -> Iterator[Problem]:
    """transpose-shape."""
    src, dst = _pair(record)
    if src is None or dst is None:
        return
    two = len(src.extents) >= 2 and len(dst.extents) >= 2
    turned = list(src.extents)[:-3:-1] if two else []
    wrong = not two or any(
        context.prover.equal(a, b) is False for a, b in zip(turned, dst.extents[-2:], strict=True)
    )
    if wrong or not _same_planes(src.extents[:-2], dst.extents[:-2], context):
        yield TRANSPOSE_SHAPE.at(
            record.span_of("dst"),
            related=declared(src.buffer, dst.buffer),
            src=src.text(),
            src_shape=shape_text(src.extents),
            dst=dst.text(),
            dst_shape=shape_text(dst.extents),
        )


def _same_planes(a: Sequence[Value], b: Sequence[Value], context: CheckContext) -> bool:
    """Whether what stands before the last two dimensions may be alike: the same extents, or only ones."""
    if len(a) == len(b):
        return all(context.prover.equal(m, n) is not False for m, n in zip(a, b, strict=True))
    return all(isinstance(e, Unknown) or as_int(e) == 1 for e in (*a, *b))


def describe(record: OpRecord, context: CheckContext) -> OpDescription:
    src, dst = _pair(record)
    if src is None or dst is None:
        return OpDescription("transposes a tile", "")
    tile = f"{times(src.extents)} {dtype_name(src.buffer) or 'unknown'}"
    way = f"{scope_name(src.buffer)} {src.text()} → {scope_name(dst.buffer)} {dst.text()}"
    return OpDescription(f"transposes {tile}, {way}", f"transposed {times(src.extents)}")


TRANSPOSE = TileOp("transpose", verify, accesses, describe, build)
