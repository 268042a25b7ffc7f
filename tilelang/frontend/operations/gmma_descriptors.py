"""T.compute_gmma_descriptor: the numbers of a matrix descriptor, from a tile and its layout."""

from __future__ import annotations

from typing import Any

from tilelang.arch.dtypes import element_bits
from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Bound
from tilelang.frontend.operations.layout_calls import LayoutValue
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_unknown, named_type
from tilelang.ir.values import Buffer, Region, Unknown, as_int
from tilelang.language.gmma_descriptors import WGMMADescriptorParams
from tilelang.layout.swizzle_mode import SwizzleMode

_UNIT = 16  # bytes in which descriptors count
_MODES = {32: SwizzleMode.SWIZZLE_32B, 64: SwizzleMode.SWIZZLE_64B, 128: SwizzleMode.SWIZZLE_128B}


def gmma_descriptor(run: Run, call: Bound) -> Any:
    """The numbers, or Unknown after a problem and where something is not known."""
    layout, tile, turned = (call.value(n) for n in ("tl_layout", "buffer", "transposed"))
    depth = as_int(call.value("micro_size_k", 16))
    tile = tile.buffer if isinstance(tile, Region) else tile
    lost = any_unknown([layout, tile, turned])
    if lost is not None:
        return lost

    def wrong(name: str, what: str) -> Any:
        return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)

    if not isinstance(layout, LayoutValue):
        return wrong("tl_layout", f"`tl_layout` must be a layout, not {named_type(layout)}")
    if not isinstance(tile, Buffer) or len(tile.shape) != 2:
        return wrong("buffer", "`buffer` must be a tile of two dimensions")
    shape = tuple(n for n in map(as_int, tile.shape) if n is not None)
    if len(shape) != 2 or isinstance(tile.dtype, Unknown) or depth is None:
        return Unknown(f"the shape or dtype of `{tile.name}` is not known")
    bits = element_bits(tile.dtype)
    made = layout.annotation.shared(shape, bits)
    if made.kind != "swizzle":
        return wrong(
            "tl_layout", f"wgmma reads swizzled tiles, and {tile.name} is laid out {made.describe()}"
        )
    atom, rows = made.swizzle_bytes * 8 // bits, shape[0]
    several = shape[1] > atom
    leading = 1 if not turned else rows * made.swizzle_bytes // _UNIT if several else 0
    return WGMMADescriptorParams(
        _MODES[made.swizzle_bytes],
        leading,
        8 * made.swizzle_bytes // _UNIT,
        atom,
        atom // depth,
        bits // 8,
        not turned,
        k_panel_elems=rows * atom if several and not turned else None,
    )
