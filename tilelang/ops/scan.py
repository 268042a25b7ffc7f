"""T.cumsum and T.cummax: every element of a tile becomes the fold of those before it along one dimension."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.scope import SCAN_SCOPE
from tilelang.diagnostics.rules.shape import SCAN_DIM, SCAN_SHAPE
from tilelang.ir import tile_ops
from tilelang.ir.spans import to_tvm
from tilelang.ir.tile_program import OpRecord
from tilelang.ir.values import Region, as_int, show
from tilelang.ops.build import attributes, operand_region
from tilelang.ops.operands import declared, dtype_name, scope_name, shape_text, times
from tilelang.ops.tile_op import CheckContext, OpDescription, RegionAccess, TileOp

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip


@dataclass(frozen=True, eq=False)
class Scan:
    """`dst[.., k, ..] = fold of src[.., 0 .. k, ..]` over `dim`, counted from 0; from the end if `reverse`.

    `kind` is sum or max. Both regions have the same extents; they may be the same memory.
    """

    src: Any  # TensorRegion
    dst: Any
    kind: str
    dim: int
    reverse: bool = False
    span: Any = None

    def call(self) -> Any:
        """The statement `tl.scan(src, dst)`."""
        attrs = {"kind": self.kind, "dim": self.dim, "reverse": self.reverse}
        return X.Evaluate(
            tile_ops.call(tile_ops.SCAN, [self.src, self.dst], attrs, span=self.span), self.span
        )

    @staticmethod
    def read(call: ir.Call) -> Scan:
        """The operation a `tl.scan` call stands for."""
        return Scan(call.args[0], call.args[1], **attributes(call), span=call.span)


def _operands(record: OpRecord) -> tuple[Region | None, Region | None]:
    src = record.region("src")
    return src, record.region("dst") if record.value("dst") is not None else src


def scanned_dim(record: OpRecord) -> int | None:
    """The dimension along which the scan runs, counted from 0; None if it is unknown or there is none."""
    src, dim = record.region("src"), as_int(record.value("dim", 0))
    if src is None or dim is None:
        return None
    rank = len(src.extents)
    return dim % rank if -rank <= dim < rank else None


def accesses(record: OpRecord) -> Sequence[RegionAccess]:
    """The source is read, the destination written; in place it is both."""
    src, dst = _operands(record)
    found = [] if src is None else [RegionAccess("src", src, "read", src.extents)]
    if dst is not None:
        name = "dst" if record.value("dst") is not None else "src"
        found.append(RegionAccess(name, dst, "write", dst.extents))
    return found


def build(record: OpRecord) -> Any:
    """`tl.scan` over both regions."""
    (src, dst), dim = _operands(record), scanned_dim(record)
    if src is None or dst is None or dim is None:
        raise ValueError("the operands of a scan must be known")
    return Scan(
        operand_region(src, src.extents),
        operand_region(dst, dst.extents),
        str(record.value("kind")),
        dim,
        bool(record.value("reverse", False)),
        to_tvm(record.span),
    ).call()


def verify(record: OpRecord, context: CheckContext) -> Iterator[Problem]:
    """scan-shape, scan-scope."""
    src, dst = _operands(record)
    if src is None or dst is None or not (src.fits_rank and dst.fits_rank):
        return
    name = f"T.cum{record.value('kind')}"
    operands = [(src, "src")] if dst.buffer is src.buffer else [(src, "src"), (dst, "dst")]  # in place: one
    elsewhere = [pair for pair in operands if pair[0].buffer.scope not in ("shared", "local.fragment")]
    for region, argument in elsewhere:
        yield SCAN_SCOPE.at(
            record.span_of(argument),
            related=declared(region.buffer),
            op=name,
            buffer=region.buffer.name,
            scope=scope_name(region.buffer),
        )
    if elsewhere:  # the tile that takes its place has a shape of its own
        return
    asked, rank = as_int(record.value("dim", 0)), len(src.extents)
    if asked is not None and scanned_dim(record) is None:
        yield SCAN_DIM.at(
            record.span_of("dim"),
            related=declared(src.buffer),
            buffer=src.text(),
            shape=shape_text(src.extents),
            dim=asked,
            last=rank - 1,
        )
    differ = len(src.extents) != len(dst.extents) or any(
        context.prover.equal(a, b) is False for a, b in zip(src.extents, dst.extents, strict=True)
    )
    if differ:
        yield SCAN_SHAPE.at(
            record.span_of("dst"),
            related=declared(src.buffer, dst.buffer),
            op=name,
            src=src.text(),
            src_shape=shape_text(src.extents),
            dst=dst.text(),
            dst_shape=shape_text(dst.extents),
        )


def describe(record: OpRecord, context: CheckContext) -> OpDescription:
    """`running sum along dimension 1 (64) of 16×64 float32, shared s → shared s`."""
    (src, dst), dim = _operands(record), scanned_dim(record)
    kind = "running sum" if record.value("kind") == "sum" else "running maximum"
    if src is None or dst is None or dim is None:
        return OpDescription(kind, "")
    tile = f"{times(src.extents)} {dtype_name(src.buffer) or 'unknown'}"
    way = f"{scope_name(src.buffer)} {src.text()} → {scope_name(dst.buffer)} {dst.text()}"
    backwards = " from the end" if record.value("reverse", False) is True else ""
    size = show(src.extents[dim])
    text = f"{kind}{backwards} along dimension {dim} ({size}) of {tile}, {way}"
    return OpDescription(text, f"{kind} of {size}")


SCAN = TileOp("scan", verify, accesses, describe, build)
