"""What lanes load from the E of a T.gemm_sp: mma.sp and wgmma take it alike.

PTX ISA 9.7.15.6.1 and 9.7.16.6, selector 0. Each lane holds 32 bits: lane 4 g + t those of row g and row
g + 8, of half t of the depth (16-bit and 32-bit elements; t is 0 or 1, and the other lanes hold the same
again), or of the half t // 2 of row g + 8 (t % 2) (8-bit elements).
"""

from __future__ import annotations

from typing import Any

from tvm import tirx as X

from tilelang.arch.dtypes import dtype_info
from tilelang.ops.gemm_sp import CODE_BITS, SparseGemm, group
from tilelang.passes.walk import bits_of, index
from tilelang.targets.simt.block import Block

_WARP = 32
_REGISTER_BITS = 32


class Metadata:
    """The registers for one gemm."""

    def __init__(self, gemm: SparseGemm, block: Block) -> None:
        self._gemm, self._block = gemm, block
        self._width = dtype_info(str(gemm.e.source.dtype)).bits
        self._dtype, self._bits = str(gemm.a.source.dtype), bits_of(str(gemm.a.source.dtype))
        self._lane = block.simplify(block.thread % _WARP)

    def register(self, row: Any, step: Any) -> Any:
        """The 32 bits of this lane, for 16 rows from `row` on and step `step` of K."""
        group_row, member = row + self._lane // 4, self._lane % 4
        if self._bits == 8:  # 64 of K
            place = step * (64 // group(self._dtype) * CODE_BITS) + member // 2 * _REGISTER_BITS
            return self._of_row(group_row + member % 2 * 8, place, _REGISTER_BITS)
        half = _REGISTER_BITS // 2
        place = step * _REGISTER_BITS + member % 2 * half
        upper = X.shift_left(self._of_row(group_row + 8, place, half), X.const(half, "uint32"))
        return X.bitwise_or(self._of_row(group_row, place, half), upper)

    def _of_row(self, row: Any, place: Any, count: int) -> Any:
        """`count` bits of a row of E from bit `place` on, a multiple of `count`; an uint32."""
        width = self._width
        if width >= count:
            wide = "uint64" if width > _REGISTER_BITS else "uint32"
            value = X.Cast(wide, self._element(row, X.floordiv(place, index(width))))
            shift = self._block.simplify(X.floormod(place, index(width)))
            if width > count:
                value = X.bitwise_and(
                    X.shift_right(value, X.Cast(wide, shift)), X.const((1 << count) - 1, wide)
                )
            return X.Cast("uint32", value) if wide != "uint32" else value
        found: Any = None
        for part in range(count // width):
            held = X.Cast("uint32", self._element(row, X.floordiv(place, index(width)) + part))
            moved = X.shift_left(held, X.const(part * width, "uint32")) if part else held
            found = moved if found is None else X.bitwise_or(found, moved)
        return found

    def _element(self, row: Any, column: Any) -> Any:
        """An element of E without its sign."""
        region = self._gemm.e
        places = (column, row) if self._gemm.transpose_e else (row, column)
        *leading, first, second = (r.min for r in region.region)
        indices = [self._block.simplify(m + p) for m, p in zip((first, second), places, strict=True)]
        return X.Cast(f"uint{self._width}", X.BufferLoad(region.source, [*leading, *indices]))
