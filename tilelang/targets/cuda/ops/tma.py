"""T.tma_copy on sm_90: bulk tensor copies through descriptors, begun by the first of the threads that come.

PTX ISA 9.7.9.27 (cp.async.bulk.tensor), CUDA driver API, cuTensorMapEncodeTiled: at most five dimensions,
boxes of at most 256 along each, the inner one a multiple of 16 bytes and not wider than the swizzle; strides
are multiples of 16 bytes. One copy moves one column of swizzle atoms.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.arch.cuda import L2_POLICIES
from tilelang.arch.tensor_maps import MOST_BOX, MOST_DIMENSIONS
from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.ir import tile_ops
from tilelang.ir.safe_values import safe_values
from tilelang.ir.spans import place_of
from tilelang.ir.tile_ops import seq
from tilelang.layout.shared import SharedLayout
from tilelang.ops.tma import TmaCopy, whole_atoms
from tilelang.passes.walk import bits_of, calls, constant, index
from tilelang.runtime.plan import TensorMap
from tilelang.targets.cuda.ops.cluster_copy import lower_cluster_copy
from tilelang.targets.launch_plan import size_expr
from tilelang.targets.simt.block import Block

TENSOR_MAP_ALIGNMENT = 16  # bytes that a tensor's address must be a multiple of
_TILE_ALIGNMENT = 128  # bytes that a box in shared memory begins at a multiple of
_UNIT = 16
_HALF_BYTE = 4
# Dtype -> that of the descriptor: what is moved counts, not what it means.
_SAME_BITS = {8: "uint8", 16: "uint16", 32: "uint32", 64: "uint64"}


@dataclass(frozen=True)
class _Box:
    """One bulk copy: where it begins in the tile and in the tensor (indices), and its extents there."""

    place: tuple[Any, ...]
    corner: tuple[Any, ...]


def lower_tma_copy(stmt: Any, block: Block, alone: bool) -> Any:
    """The statements for a `tl.tma_copy` call. `alone`: only one thread comes here, so none is chosen.

    Raises KernelError for a tile or a tensor that the hardware cannot copy.
    """
    copy = TmaCopy.read(stmt.value)
    if copy.rank is not None:
        return lower_cluster_copy(copy, block, alone)
    layout = block.layouts.shared[copy.tile.source.__chandle__()]
    extents, boxes = _boxes(copy, layout, block)
    _check_alignment(copy, boxes, layout, block)
    if layout.bits == _HALF_BYTE:
        extents, boxes = _in_bytes(copy, extents, boxes, block)
    handle = _descriptor(copy, extents, layout, block)
    issued = list(_issue(copy, extents, boxes, handle, block))
    load = copy.barrier is not None
    if not load:
        issued.append(_call("tma_store_arrive", [], copy))
    rank = len(extents)
    count = "1 box" if len(boxes) == 1 else f"{len(boxes)} boxes"
    block.note_instruction(copy.span, f"TMA {'load' if load else 'store'}, {rank}-D, {count}")
    first = seq(issued)
    if not alone:
        number = block.thread if copy.leader is None else X.FloorMod(block.thread, index(copy.leader))
        first = X.IfThenElse(X.EQ(number, index(0)), first, None, copy.span)
    # Plain writes to the tile are seen by the copy that reads it only after a proxy fence.
    return first if load else seq([_call("fence_proxy_async", [], copy), first])


def _issue(
    copy: TmaCopy, extents: tuple[int, ...], boxes: list[_Box], handle: Any, block: Block
) -> Iterator[Any]:
    rank = len(extents)
    size = math.prod(extents) * max(8, bits_of(str(copy.tile.source.dtype))) // 8
    if copy.barrier is not None:
        total = X.const(size * len(boxes), "uint32")
        name = "tl.mbarrier_arrive_expect_tx" if copy.arrive else "tl.mbarrier_expect_tx"
        announce = tile_ops.call(name, [copy.barrier, total], span=copy.span)
        yield X.Evaluate(announce, copy.span)
    if copy.mask is None:
        yield from _moves(copy, rank, boxes, handle)
        return
    # The lowest rank loads for all that the mask names, the others of these only wait; who is not among them
    # loads for itself.
    mine = tile_ops.call("tl.cluster_rank", [], dtype="int32", span=copy.span)
    lowest = X.const((copy.mask & -copy.mask).bit_length() - 1, "int32")
    named = X.bitwise_and(X.shift_right(X.const(copy.mask, "int32"), mine), X.const(1, "int32"))
    alone = X.IfThenElse(
        X.EQ(named, X.const(0, "int32")), seq(list(_moves(copy, rank, boxes, handle))), None, copy.span
    )
    together = seq(list(_moves(copy, rank, boxes, handle, X.const(copy.mask, "uint16"))))
    yield X.IfThenElse(X.EQ(mine, lowest), together, alone, copy.span)


def _moves(copy: TmaCopy, rank: int, boxes: list[_Box], handle: Any, mask: Any = None) -> Iterator[Any]:
    """The instructions; `mask`: for these blocks of the cluster."""
    tile = copy.tile.source
    hint = L2_POLICIES.get(copy.eviction_policy or "")
    for box in boxes:
        pointer = X.address_of(X.BufferLoad(tile, [index(i) for i in box.place]))
        corner = [index(i) for i in reversed(box.corner)]
        more = [X.const(hint, "uint64")] if hint is not None else []
        name = f"{'load' if copy.barrier is not None else 'store'}_{rank}d{'_hint' if more else ''}"
        if mask is not None:
            name, more = name.replace("load_", "load_multicast_"), [mask, *more]
        if copy.barrier is not None:
            yield _call(f"tma_{name}", [pointer, copy.barrier, handle, *corner, *more], copy)
        else:
            yield _call(f"tma_{name}", [handle, pointer, *corner, *more], copy)


def _call(name: str, args: list[Any], copy: TmaCopy) -> Any:
    return X.Evaluate(tile_ops.call(f"tl.cuda.{name}", args, span=copy.span), copy.span)


def _boxes(copy: TmaCopy, layout: SharedLayout, block: Block) -> tuple[tuple[int, ...], list[_Box]]:
    """The extents of a box in the tensor, innermost first, and every box of the copy."""
    tile, tensor = copy.tile, copy.tensor
    shape = [_extent(copy, r.extent) for r in tile.region]
    moved = [k for k, n in enumerate(shape) if n != 1] or [len(shape) - 1]
    across = [k for k, r in enumerate(tensor.region) if constant(r.extent) != 1]
    if [_extent(copy, tensor.region[k].extent) for k in across] != [shape[k] for k in moved if shape[k] != 1]:
        raise _impossible(copy, "its tile and its part of the tensor differ in shape")
    if len(tensor.region) > MOST_DIMENSIONS:
        rank = len(tensor.region)
        raise _impossible(copy, f"its tensor has {rank} dimensions, more than {MOST_DIMENSIONS}")
    if across and across[-1] != len(tensor.region) - 1:
        raise _impossible(copy, "its tile takes one element only of the tensor's last dimension")
    whole = _per_box(copy, layout, shape, moved)
    steps = [range(0, n, whole.get(k, 1)) for k, n in enumerate(shape)]
    chosen = dict(zip(moved, across, strict=False)) if across else {}
    extents = [1] * len(tensor.region)
    for k, d in chosen.items():
        extents[d] = whole.get(k, 1)
    found = []
    for at in itertools.product(*steps):
        place = [block.simplify(r.min + a) if a else r.min for r, a in zip(tile.region, at, strict=True)]
        corner = [r.min for r in tensor.region]
        for k, d in chosen.items():
            corner[d] = block.simplify(corner[d] + at[k]) if at[k] else corner[d]
        found.append(_Box(tuple(place), tuple(corner)))
    return tuple(reversed(extents)), found


def _per_box(copy: TmaCopy, layout: SharedLayout, shape: list[int], moved: list[int]) -> dict[int, int]:
    """How much of which dimension of the tile one box covers, where it lies in one piece; 1 elsewhere."""
    tile, bits = copy.tile, bits_of(str(copy.tile.source.dtype))
    full = [int(n) for n in tile.source.shape]
    last = len(shape) - 1
    if layout.kind == "swizzle":
        atom = layout.swizzle_bytes * 8 // bits
        if not whole_atoms(tile.region, atom):
            width = layout.swizzle_bytes
            raise _impossible(copy, f"its tile does not begin and end at the {width}-byte swizzle")
        rows = _split(shape[-2], MOST_BOX)
        return {last: atom, last - 1: rows}
    if layout.kind != "linear":
        raise _impossible(copy, f"{tile.source.name} is laid out {layout.describe()}")
    columns = _split(shape[-1], MOST_BOX, max(1, _UNIT * 8 // bits))
    if columns * bits // 8 % _UNIT:
        raise _impossible(copy, f"its rows of {shape[-1]} elements are no multiple of 16 bytes")
    found = {last: columns}
    # Rows follow each other only where they are whole and one box holds them.
    if columns == full[-1] and last > 0:
        found[last - 1] = _split(shape[-2], MOST_BOX)
    return found


def _in_bytes(
    copy: TmaCopy, extents: tuple[int, ...], boxes: list[_Box], block: Block
) -> tuple[tuple[int, ...], list[_Box]]:
    """The same of elements of 4 bits, two of which are one byte to the hardware."""
    found = []
    for box in boxes:
        *outer, last = box.corner
        if not block.widths.multiple(index(last), 2):
            raise _impossible(
                copy, f"its part of {copy.tensor.source.name} may begin in the middle of a byte"
            )
        found.append(_Box(box.place, (*outer, block.simplify(X.floordiv(index(last), index(2))))))
    return (extents[0] // 2, *extents[1:]), found


def _check_alignment(copy: TmaCopy, boxes: list[_Box], layout: SharedLayout, block: Block) -> None:
    """Every box begins in shared memory at a multiple of 128 bytes; atoms of a swizzle do anyway."""
    per = max(1, _TILE_ALIGNMENT * 8 // layout.bits)
    for box in boxes if layout.kind == "linear" else ():
        offset = block.simplify(layout.offset([index(i) for i in box.place]))
        if not block.widths.multiple(offset, per):
            raise _impossible(
                copy, f"a part of {copy.tile.source.name} does not begin at 128 bytes' distance"
            )


def _split(extent: int, most: int, unit: int = 1) -> int:
    """The largest part of `extent` that a box can have and that divides it, a multiple of `unit` if any."""
    parts = [n for n in range(1, min(extent, most) + 1) if extent % n == 0]
    return max([n for n in parts if n % unit == 0] or parts)


def _extent(copy: TmaCopy, extent: Any) -> int:
    number = constant(extent)
    if number is None:
        raise _impossible(copy, f"its extent {extent} is known only at run time")
    return number


def _descriptor(copy: TmaCopy, box: tuple[int, ...], layout: SharedLayout, block: Block) -> Any:
    """The parameter of the device function that holds the descriptor; one for all copies alike."""
    tensor = copy.tensor.source
    bits = bits_of(str(tensor.dtype))
    if bits != _HALF_BYTE and bits not in _SAME_BITS:
        raise _impossible(copy, f"its elements have {bits} bits")
    shape = list(tensor.shape)
    strides = list(tensor.strides) or [_product(shape[k + 1 :]) for k in range(len(shape))]
    if bits == _HALF_BYTE:
        known = constant(shape[-1])
        if known is not None and known % 2:
            raise _impossible(copy, f"a row of {tensor.name} ends in the middle of a byte")
    if constant(strides[-1]) != 1:
        raise _impossible(copy, f"the elements of {tensor.name}'s last dimension do not lie side by side")
    for k, stride in enumerate(strides[:-1]):
        number = constant(stride)
        if number is not None and number * bits // 8 % _UNIT:
            what = (
                f"the stride of dimension {k} of {tensor.name}, {number} elements, is no multiple of 16 bytes"
            )
            raise _impossible(copy, what)
    if bits == _HALF_BYTE:  # to the hardware, bytes
        shape[-1] = _halved(shape[-1])
    sizes = tuple(size_expr(n) for n in reversed(shape))
    in_bytes = tuple(
        size_expr(_halved(s) if bits == _HALF_BYTE else s * (bits // 8)) for s in reversed(strides[:-1])
    )
    swizzle = layout.swizzle_bytes if layout.kind == "swizzle" else 0
    name = str(tensor.name)
    return _parameter(TensorMap("", name, _SAME_BITS[max(8, bits)], sizes, in_bytes, box, swizzle), block)


def _halved(extent: Any) -> Any:
    known = constant(extent)
    return index(known // 2) if known is not None else X.floordiv(extent, index(2))


def _parameter(made: TensorMap, block: Block) -> Any:
    if made not in block.maps:
        same = sum(m.tensor == made.tensor for m in block.maps)
        block.maps[made] = X.Var(f"{made.tensor}_map{same or ''}", "handle")
    return block.maps[made]


def author_descriptor(call: ir.Call, block: Block) -> Any:
    """The parameter in place of a `tl.tma_descriptor`."""
    start, *sizes = call.args
    attrs = call.attrs
    box = tuple(int(n) for n in str(attrs["box"]).split(","))
    shape, strides = (tuple(size_expr(n) for n in part) for part in (sizes[: len(box)], sizes[len(box) :]))
    extra = (int(attrs["swizzle"]), int(attrs["promotion"]), int(attrs["fill"]))
    name = str(start.args[0].source.name)
    return _parameter(TensorMap("", name, str(attrs["dtype"]), shape, strides, box, *extra), block)


def _product(sizes: list[Any]) -> Any:
    total: Any = 1
    for n in sizes:
        known, number = constant(total), constant(n)
        total = known * number if known is not None and number is not None else total * n
    return total


def check_safe_values(func: X.PrimFunc) -> None:
    """Raises KernelError where what lies outside a tensor is to read as something else than zero."""
    given = safe_values(func)
    found = [c for c in calls(func.body) if tile_ops.is_call(c, tile_ops.TMA_COPY)] if given else []
    for copy in map(TmaCopy.read, found):
        value = given.get(str(copy.tensor.source.name), 0)
        if copy.barrier is not None and value != 0:
            raise _impossible(copy, f"T.annotate_safe_value gives {value} outside, the hardware gives 0")


def _impossible(copy: TmaCopy, why: str) -> KernelError:
    what = f"cannot do this copy: {why}"
    return KernelError([BAD_ARGUMENTS.at(place_of(copy.span), callee="T.tma_copy", what=what)])
