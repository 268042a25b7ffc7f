"""T.copy_cluster with a barrier: bulk copies into the shared memory of another block of the cluster.

PTX ISA 9.7.9.25 (cp.async.bulk): what is copied lies in one piece on both sides, at addresses and of sizes
that are multiples of 16 bytes. All blocks of a cluster lay their shared memory out alike.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from tvm import tirx as X

from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.ir import tile_ops
from tilelang.ir.spans import place_of
from tilelang.ir.tile_ops import seq
from tilelang.layout.shared import SharedLayout
from tilelang.ops.tma import TmaCopy
from tilelang.passes.walk import bits_of, constant, index
from tilelang.targets.simt.block import Block

_UNIT = 16  # bytes
_MOST_COPIES = 1024


def lower_cluster_copy(copy: TmaCopy, block: Block, alone: bool) -> Any:
    """The statements: one arrival at the other block's barrier that tells it the bytes, then the copies.

    `alone`: only one thread comes here. Raises KernelError for tiles that do not lie in pieces of 16 bytes.
    """
    sides = (copy.src, copy.dst)
    layouts = [block.layouts.shared[r.source.__chandle__()] for r in sides]
    shapes = [[_extent(copy, r.extent) for r in side.region] for side in sides]
    inner = min(
        _together(side, layout, shape) for side, layout, shape in zip(sides, layouts, shapes, strict=True)
    )
    if not _alike(sides, layouts, shapes):
        raise _impossible(copy, "its two tiles lie differently in memory")
    bits = bits_of(str(copy.src.source.dtype))
    moved = _moved(shapes[0])
    outer, piece = moved[: len(moved) - inner], math.prod(moved[len(moved) - inner :]) * bits // 8
    if piece % _UNIT:
        raise _impossible(copy, f"its rows of {piece} bytes are no multiple of {_UNIT}")
    if math.prod(outer) > _MOST_COPIES:
        raise _impossible(
            copy, f"it takes {math.prod(outer)} copies of {piece} bytes, more than {_MOST_COPIES}"
        )
    total = X.const(piece * math.prod(outer), "uint32")
    rank = X.Cast("uint32", copy.rank)
    issued = [_call("cluster_arrive_expect_tx", [copy.barrier, rank, total], copy)]
    for at in itertools.product(*(range(n) for n in outer)):
        places = [_place(side, shape, at, block) for side, shape in zip(sides, shapes, strict=True)]
        for side, layout, place in zip(sides, layouts, places, strict=True):
            offset = block.simplify(layout.offset([index(i) for i in place]))
            if not block.widths.multiple(offset, max(1, _UNIT * 8 // bits)):
                raise _impossible(
                    copy, f"a part of {side.source.name} does not begin at a multiple of 16 bytes"
                )
        src, dst = (
            X.address_of(X.BufferLoad(side.source, [index(i) for i in place]))
            for side, place in zip(sides, places, strict=True)
        )
        issued.append(_call("bulk_to_block", [dst, src, X.const(piece, "uint32"), rank, copy.barrier], copy))
    block.note_instruction(
        copy.span, f"bulk copy to another block, {math.prod(outer)} pieces of {piece} bytes"
    )
    first = seq(issued)
    if not alone:
        first = X.IfThenElse(X.EQ(block.thread, index(0)), first, None, copy.span)
    # Plain writes to the tile are seen by the copy that reads it only after a proxy fence.
    return seq([_call("fence_proxy_async", [], copy), first])


def _moved(shape: list[int]) -> list[int]:
    return [n for n in shape if n != 1]


def _together(side: Any, layout: SharedLayout, shape: list[int]) -> int:
    """How many of the moved dimensions, counted from the last, lie in one piece; 0 where not even rows do."""
    full = [int(n) for n in side.source.shape]
    if layout.kind == "swizzle":
        whole = shape[-2:] == full[-2:]
        return len(_moved(shape[-2:])) if whole else 0
    if layout.kind != "linear":
        return 0
    count, whole = 0, True
    for part, extent in zip(reversed(shape), reversed(full), strict=True):
        if not whole:
            break
        count += part != 1
        whole = part == extent
    return count


def _alike(sides: tuple[Any, Any], layouts: list[SharedLayout], shapes: list[list[int]]) -> bool:
    """Whether a piece holds the same elements in the same order on both sides."""
    kinds = {(layout.kind, layout.swizzle_bytes) for layout in layouts}
    if len(kinds) != 1 or layouts[0].kind not in ("linear", "swizzle"):
        return False
    if _moved(shapes[0]) != _moved(shapes[1]):
        return False
    if layouts[0].kind == "linear":
        return True
    last = [[int(n) for n in side.source.shape][-2:] for side in sides]
    return last[0] == last[1] and all(shape[-2:] == last[0] for shape in shapes)


def _place(side: Any, shape: list[int], at: tuple[int, ...], block: Block) -> list[Any]:
    """The first element of a piece."""
    steps = iter(at)
    place = []
    for dim, extent in zip(side.region, shape, strict=True):
        step = next(steps, 0) if extent != 1 else 0
        place.append(block.simplify(dim.min + step) if step else dim.min)
    return place


def _extent(copy: TmaCopy, extent: Any) -> int:
    number = constant(extent)
    if number is None:
        raise _impossible(copy, f"its extent {extent} is known only at run time")
    return number


def _call(name: str, args: list[Any], copy: TmaCopy) -> Any:
    return X.Evaluate(tile_ops.call(f"tl.cuda.{name}", args, span=copy.span), copy.span)


def _impossible(copy: TmaCopy, why: str) -> KernelError:
    what = f"cannot do this copy with a barrier: {why}; without `remote_barrier` threads copy it themselves"
    return KernelError([BAD_ARGUMENTS.at(place_of(copy.span), callee="T.copy_cluster", what=what)])
