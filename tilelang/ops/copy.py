"""T.copy: move a tile between global memory, shared memory and fragments, converting the dtype if it differs.

Extents follow the contract: a whole buffer gives its shape, a slice its length, a point `A[i, j]` takes the
extents of the other side, right-aligned and padded with leading ones. Reads outside a global tensor give
zero, writes are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tilelang.diagnostics.problem import Edit, Fix, Problem
from tilelang.diagnostics.rules import shape as rules
from tilelang.ir import tile_ops
from tilelang.ir.spans import to_tvm
from tilelang.ir.tile_program import OpRecord
from tilelang.ir.values import Region, Value, as_int, show
from tilelang.ops.build import attributes, convert, operand_region
from tilelang.ops.extents import CopyExtents, Mismatch, copy_extents, side_that_iterates
from tilelang.ops.operands import (
    bytes_text,
    declared,
    dtype_name,
    scope_name,
    shape_text,
    tile_bytes,
    times,
)
from tilelang.ops.slices import broadcast_text, slice_text
from tilelang.ops.source_edits import lone_statement_indent, swap_sizes, text_of
from tilelang.ops.tile_op import CheckContext, Mode, OpDescription, RegionAccess, TileOp
from tilelang.ops.tma import TmaCopy, is_tma, verify_tma

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip


@dataclass(frozen=True, eq=False)
class Copy:
    """`dst[...] = src[...]`. Both regions hold the same number of non-1 extents, matched in order, equal
    sizes.

    `is_async`: part of an open asynchronous group (placed by pipelining); the data is there only after the
    matching `tl.async_wait` and a barrier.
    """

    src: Any  # TensorRegion
    dst: Any  # TensorRegion
    coalesced_width: int | None = None
    prefer_instruction: str | None = None
    eviction_policy: str | None = None
    disable_tma: bool = False
    is_async: bool = False
    loop_layout: str | None = None  # `layout.annotated.loop_text`: which thread moves which element
    span: Any = None

    def call(self) -> Any:
        """The statement `tl.copy(src, dst)`."""
        attrs = {
            "coalesced_width": self.coalesced_width,
            "prefer_instruction": self.prefer_instruction,
            "eviction_policy": self.eviction_policy,
            "disable_tma": self.disable_tma or None,
            "is_async": self.is_async or None,
            "loop_layout": self.loop_layout,
        }
        return X.Evaluate(
            tile_ops.call(tile_ops.COPY, [self.src, self.dst], attrs, span=self.span), self.span
        )

    @staticmethod
    def read(call: ir.Call) -> Copy:
        """The operation a `tl.copy` call stands for."""
        return Copy(call.args[0], call.args[1], **attributes(call), span=call.span)


def accesses(record: OpRecord) -> Sequence[RegionAccess]:
    """What is read and written; nothing where an operand is unknown."""
    src, dst = record.region("src"), record.region("dst")
    if src is None or dst is None:
        modes: tuple[tuple[str, Region | None, Mode], ...] = (("src", src, "read"), ("dst", dst, "write"))
        return [RegionAccess(name, r, mode, r.extents) for name, r, mode in modes if r is not None]
    extents = copy_extents(src, dst)
    return [
        RegionAccess("src", src, "read", extents.src),
        RegionAccess("dst", dst, "write", extents.dst),
    ]


def build(record: OpRecord) -> Any:
    """`tl.copy` over both regions; a plain store if both sides are single elements."""
    src, dst = record.region("src"), record.region("dst")
    if src is None or dst is None:
        raise ValueError("both operands of T.copy must be known")
    extents = copy_extents(src, dst)
    span = to_tvm(record.span)
    if is_tma(record):
        return TmaCopy(
            operand_region(src, extents.src),
            operand_region(dst, extents.dst),
            record.value("barrier"),
            record.value("eviction_policy"),
            as_int(record.value("leader_scope_threads")),
            bool(record.value("emit_arrive", False)),
            as_int(record.value("cluster_mask")),
            record.value("rank"),
            span=span,
        ).call()
    if src.is_point and dst.is_point:
        value = src.buffer.var[tuple(src.starts)]
        return X.BufferStore(dst.buffer.var, convert(value, str(dst.buffer.dtype)), list(dst.starts), span)
    return Copy(
        operand_region(src, extents.src),
        operand_region(dst, extents.dst),
        coalesced_width=record.value("coalesced_width"),
        prefer_instruction=record.value("prefer_instruction"),
        eviction_policy=record.value("eviction_policy"),
        disable_tma=bool(record.value("disable_tma", False)),
        is_async=bool(record.value("is_async", False)),
        loop_layout=record.value("loop_layout"),
        span=span,
    ).call()


def verify(record: OpRecord, context: CheckContext) -> Iterator[Problem]:
    """copy-shape, and what T.tma_copy asks for besides."""
    src, dst = record.region("src"), record.region("dst")
    if src is None or dst is None or not (src.fits_rank and dst.fits_rank):
        return
    if is_tma(record):
        yield from verify_tma(record, src, dst)
    extents = copy_extents(src, dst, context.prover)
    parts = [m for m in extents.mismatches if m.kind == "source-smaller"]
    if parts and len(parts) == len(extents.mismatches) and side_that_iterates(src, dst) is src:
        yield _part_of_destination(record, src, dst, parts, context)
        return
    turned = _turned(extents.mismatches, context)
    if turned is not None:
        yield _other_way_round(record, src, dst, turned, context)
        return
    for mismatch in extents.mismatches:
        yield _mismatch(record, src, dst, mismatch, context)


def _turned(found: Sequence[Mismatch], context: CheckContext) -> tuple[Mismatch, Mismatch] | None:
    """Two misfits that would be none if two dimensions of one side changed places."""
    if len(found) != 2 or any(m.src_dim is None or m.dst_dim is None for m in found):
        return None
    first, second = found
    equal = context.prover.equal
    fits = equal(first.src_extent, second.dst_extent) and equal(second.src_extent, first.dst_extent)
    return (first, second) if fits is True else None


def _other_way_round(
    record: OpRecord, src: Region, dst: Region, found: tuple[Mismatch, Mismatch], context: CheckContext
) -> Problem:
    first, second = found
    fixes = []
    for region, a, b in ((src, first.src_dim, second.src_dim), (dst, first.dst_dim, second.dst_dim)):
        if a is None or b is None:
            continue
        if region.whole:
            edits = swap_sizes(region.buffer.span, context.text, a, b)
            title = f"Swap the sizes of {region.buffer.name}"
        else:
            edits = _swapped_entries(region, a, b, context)
            title = f"Swap the two slices of {region.buffer.name}"
        if edits:
            fixes.append(Fix(title, edits))
    return rules.COPY_TRANSPOSED.at(
        record.span_of("dst"),
        related=declared(src.buffer, dst.buffer),
        fixes=tuple(fixes),
        src=src.text(),
        dst=dst.text(),
        src_size=show(first.src_extent),
        dst_size=show(first.dst_extent),
        src_dim=first.src_dim,
        src_second=second.src_dim,
    )


def _swapped_entries(region: Region, a: int, b: int, context: CheckContext) -> tuple[Edit, ...]:
    """Numbers alone: where a block stands in the slice, its grid says which of its variables walks what."""
    if region.indices is None or any(as_int(region.indices[k].start) is None for k in (a, b)):
        return ()
    one, other = region.indices[a].span, region.indices[b].span
    texts = text_of(one, context.text), text_of(other, context.text)
    return (Edit(one, texts[1]), Edit(other, texts[0])) if all(texts) else ()


def _part_of_destination(
    record: OpRecord, src: Region, dst: Region, found: Sequence[Mismatch], context: CheckContext
) -> Problem:
    """The source decides how much is copied, and the slice that is written is larger."""
    sizes = {m.dst_dim: m.src_extent for m in found}
    extents = [sizes.get(k, e) for k, e in enumerate(dst.extents)]
    return rules.COPY_DESTINATION_LARGER.at(
        record.span_of("dst"),
        related=declared(src.buffer, dst.buffer),
        fixes=_written_out(record, "dst", dst, extents, context),
        src=src.text(),
        src_size=show(found[0].src_extent),
        src_dim=found[0].src_dim,
        dst=dst.text(),
        dst_size=show(found[0].dst_extent),
        dst_dim=found[0].dst_dim,
    )


def _mismatch(record: OpRecord, src: Region, dst: Region, found: Mismatch, context: CheckContext) -> Problem:
    names: dict[str, Any] = {"src": src.text(), "dst": dst.text()}
    related = declared(src.buffer, dst.buffer)
    shapes: dict[str, Any] = {"src_shape": shape_text(src.extents), "dst_shape": shape_text(dst.extents)}
    if found.kind == "shapes":
        fixes = _broadcast(record, src, dst, context) or _slice_of_whole(record, src, dst, context)
        return rules.COPY_SHAPE.at(record.span_of("dst"), related=related, fixes=fixes, **names, **shapes)
    sizes: dict[str, Any] = {
        "src_size": show(found.src_extent),
        "dst_size": show(found.dst_extent),
        "src_dim": found.src_dim,
        "dst_dim": found.dst_dim,
    }
    if found.kind == "shrinks":
        return _shrinking(record, src, dst, found, context)
    if found.kind == "source-larger":
        fixes = _resized(record, "src", src, found.src_dim, found.dst_extent, context)
        return rules.COPY_SOURCE_LARGER.at(
            record.span_of("dst"), related=related, fixes=fixes, **names, **sizes
        )
    if found.kind == "source-smaller" and side_that_iterates(src, dst) is dst:
        fixes = _resized(record, "dst", dst, found.dst_dim, found.src_extent, context)
        reads_some = not src.whole and (as_int(found.src_extent) or 1) > 0
        if dst.whole and reads_some:  # the tile is there to be filled
            fixes = (*_resized(record, "src", src, found.src_dim, found.dst_extent, context), *fixes)
        return rules.COPY_SOURCE_SMALLER.at(
            record.span_of("src"), related=related, fixes=fixes, **names, **sizes
        )
    if found.src_dim is not None:
        sized, other, dim, size, argument = src, dst, found.src_dim, found.src_extent, "src"
    else:
        sized, other, dim, size, argument = dst, src, found.dst_dim, found.dst_extent, "dst"
    return rules.COPY_UNMATCHED.at(
        record.span_of(argument),
        related=related,
        dim=dim,
        operand=sized.text(),
        size=show(size),
        other=other.text(),
        other_shape="" if other.is_point else shape_text(other.extents),
    )


def _shrinking(record: OpRecord, src: Region, dst: Region, found: Mismatch, context: CheckContext) -> Problem:
    sliced, dim, argument = (
        (src, found.src_dim, "src") if found.dst_dim is None else (dst, found.dst_dim, "dst")
    )
    extent, size = found.src_extent, found.dst_extent
    other = dst
    if argument == "dst":
        extent, size, other = size, extent, src
    second = context.prover.at_second(extent)
    assert second is not None
    return rules.COPY_SHRINKS.at(
        record.span_of(argument),
        related=declared(src.buffer, dst.buffer),
        slice=sliced.text(),
        size=show(extent),
        dim=dim,
        var=second[0].name,
        count=max(0, second[1]),
        other=other.text(),
        other_size=show(size),
    )


def _resized(
    record: OpRecord, argument: str, region: Region, dim: int | None, extent: Value, context: CheckContext
) -> tuple[Fix, ...]:
    """The edit that writes one side's slice out with another extent in one dimension."""
    extents = [extent if k == dim else e for k, e in enumerate(region.extents)]
    return _written_out(record, argument, region, extents, context)


def _broadcast(record: OpRecord, src: Region, dst: Region, context: CheckContext) -> tuple[Fix, ...]:
    """Where the source would fit by being repeated: the loop that does it, for a copy on lines of its own."""
    call = text_of(record.callee_span, context.text)
    indent = lone_statement_indent(record.span, context.text)
    if indent is None or not call.endswith("copy"):
        return ()
    loop = broadcast_text(src, dst, call, indent)
    return () if loop is None else (Fix("Write the loop that repeats it", (Edit(record.span, loop),)),)


def _slice_of_whole(record: OpRecord, src: Region, dst: Region, context: CheckContext) -> tuple[Fix, ...]:
    """Where one whole buffer is a part of the other, dimension by dimension from the right: its slice."""
    for argument, whole, part in (("src", src, dst), ("dst", dst, src)):
        extra = len(whole.extents) - len(part.extents)
        if extra < 0:
            continue
        wanted = (1,) * extra + part.extents
        if all(context.prover.less(e, w) is False for e, w in zip(whole.extents, wanted, strict=True)):
            return _written_out(record, argument, whole, wanted, context)
    return ()


def _written_out(
    record: OpRecord, argument: str, region: Region, extents: Sequence[Value], context: CheckContext
) -> tuple[Fix, ...]:
    text = slice_text(region, extents, context.text)
    return () if text is None else (Fix(f"Use the slice {text}", (Edit(record.span_of(argument), text),)),)


def describe(record: OpRecord, context: CheckContext) -> OpDescription:
    """`128×32 float16 (8 KiB), global A → shared A_shared`."""
    src, dst = record.region("src"), record.region("dst")
    if src is None or dst is None:
        return OpDescription("copies a tile", "")
    extents = copy_extents(src, dst, context.prover)
    tile = _tile(extents, src, dst)
    dtype, dst_dtype = dtype_name(src.buffer) or "unknown", dtype_name(dst.buffer) or "unknown"
    size = tile_bytes(extents.src, dtype)
    amount = f"{times(tile)} {dtype}" + (f" ({bytes_text(size)})" if size is not None else "")
    way = f"{scope_name(src.buffer)} {src.buffer.name} → {scope_name(dst.buffer)} {dst.buffer.name}"
    notes = (f"converts {dtype} to {dst_dtype}",) if dtype != dst_dtype else ()
    if "global" in (src.buffer.scope, dst.buffer.scope):
        notes += ("outside the tensor, reads give 0 and writes are skipped",)
    return OpDescription(f"{amount}, {way}", f"{times(tile)} {dtype}", notes=notes)


def _tile(extents: CopyExtents, src: Region, dst: Region) -> list[Any]:
    """The extents people think of: those of the side that is a tile, leading ones left out."""
    chosen = list(extents.dst if side_that_iterates(src, dst) is dst else extents.src)
    while len(chosen) > 1 and as_int(chosen[0]) == 1:
        chosen.pop(0)
    return chosen


COPY = TileOp("copy", verify, accesses, describe, build)
