"""Which thread of a warp holds which element of an instruction's tile, as functions of indices: the maps of
`mma` and `ldmatrix` (PTX ISA 9.7.14.5, "Matrix Fragments for mma"), and swizzles of what `ldmatrix` reads.

`..._to_shared_16x16_layout(thread, register)` gives row and column, `shared_16x16_to_mma_...(row, column)`
thread and register. Names say the rows and columns of the tile, 32 threads by registers, which operand it is,
and which of its dimensions comes first (s: space, r: reduction). Numbers and formulas are taken alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.language.emitters import get_swizzle_layout
from tilelang.language.layouts import make_mma_swizzle_layout

__all__ = [
    "get_swizzle_layout",
    "ldmatrix_32x4_to_shared_16x8_layout_a",
    "ldmatrix_32x4_to_shared_16x8_layout_b",
    "ldmatrix_32x8_to_shared_16x16_layout",
    "ldmatrix_32x16_to_shared_16x32_layout_a",
    "ldmatrix_32x16_to_shared_16x32_layout_b",
    "ldmatrix_trans_32x8_to_shared_16x16_layout",
    "make_mma_swizzle_layout",
    "mma_32x8_to_shared_16x16_layout",
    "mma_load_a_32x4_to_shared_16x8_layout",
    "mma_load_a_32x8_to_shared_16x16_layout",
    "mma_load_a_32x16_to_shared_16x32_layout",
    "mma_load_a_32x32_to_shared_16x64_layout",
    "mma_load_b_32x4_to_shared_16x8_layout",
    "mma_load_b_32x8_to_shared_16x16_layout",
    "mma_load_b_32x16_to_shared_8x64_layout",
    "mma_load_b_32x16_to_shared_16x32_layout",
    "mma_store_32x2_to_shared_8x8_layout_fp64",
    "mma_store_32x8_to_shared_16x16_layout",
    "shared_8x64_to_mma_32x16_layout_rs_b",
    "shared_8x64_to_mma_32x16_layout_sr_b",
    "shared_8x64_to_mma_b_32x16_layout",
    "shared_16x8_to_mma_32x4_layout_rs_a",
    "shared_16x8_to_mma_32x4_layout_rs_b",
    "shared_16x8_to_mma_32x4_layout_sr_a",
    "shared_16x8_to_mma_32x4_layout_sr_b",
    "shared_16x8_to_mma_a_32x4_layout",
    "shared_16x8_to_mma_a_32x4_layout_trans",
    "shared_16x8_to_mma_b_32x4_layout",
    "shared_16x8_to_mma_b_32x4_layout_trans",
    "shared_16x16_to_mma_32x8_layout_rs_a",
    "shared_16x16_to_mma_32x8_layout_rs_b",
    "shared_16x16_to_mma_32x8_layout_sr_a",
    "shared_16x16_to_mma_32x8_layout_sr_b",
    "shared_16x16_to_mma_32x8_smoothlayout",
    "shared_16x16_to_mma_a_32x8_layout",
    "shared_16x16_to_mma_a_32x8_layout_trans",
    "shared_16x16_to_mma_b_32x8_layout",
    "shared_16x16_to_mma_b_32x8_layout_trans",
    "shared_16x32_to_mma_32x16_layout_rs_a",
    "shared_16x32_to_mma_32x16_layout_rs_b",
    "shared_16x32_to_mma_32x16_layout_sr_a",
    "shared_16x32_to_mma_32x16_layout_sr_b",
    "shared_16x32_to_mma_32x16_smoothlayout",
    "shared_16x32_to_mma_a_32x16_layout",
    "shared_16x32_to_mma_b_32x16_layout",
    "shared_16x64_to_mma_32x32_layout_rs_a",
    "shared_16x64_to_mma_32x32_layout_sr_a",
    "shared_16x64_to_mma_a_32x32_layout",
    "shared_32x16_to_mma_32x16_smoothlayout",
    "shared_32x16_to_mma_a_32x16_layout_trans",
    "shared_32x16_to_mma_b_32x16_layout_trans",
    "shared_64x8_to_mma_b_32x16_layout_trans",
    "shared_64x16_to_mma_a_32x32_layout_trans",
]


def _index_map(digits: str) -> Callable[[Any, Any], tuple[Any, Any]]:
    """The map that takes two numbers apart into digits, lowest first, and puts two others together.

    "j2:4 i1 | j1" reads: of the first number a digit of base 4 counts twos of the second result, the rest
    ones of the first result (i or t the first, j or l the second); the second number counts ones of the
    second result.
    """
    parts = [[_digit(word) for word in half.split()] for half in digits.split("|")]

    def mapped(first: Any, second: Any) -> tuple[Any, Any]:
        found: list[Any] = [0, 0]
        for number, half in zip((first, second), parts, strict=True):
            for place, weight, base in half:
                digit = number if base is None else number % base
                found[place] = found[place] + digit * weight
                number = number if base is None else number // base
        return found[0], found[1]

    return mapped


def _digit(word: str) -> tuple[int, int, int | None]:
    """ "j2:4" as the place of a result, the weight there and the base, None for all that is left."""
    weight, _, base = word[1:].partition(":")
    return int(word[0] in "jl"), int(weight), int(base) if base else None


ldmatrix_32x16_to_shared_16x32_layout_a = _index_map("i1:16 j16 | j1")
ldmatrix_32x16_to_shared_16x32_layout_b = _index_map("i1:8 j16:2 i8 | j1")
ldmatrix_32x4_to_shared_16x8_layout_a = _index_map("i1:16 j4 | j1:4")
ldmatrix_32x4_to_shared_16x8_layout_b = _index_map("i1:8 j4:2 i8 | j1:4")
ldmatrix_32x8_to_shared_16x16_layout = _index_map("i1:16 j8 | j1:8")
ldmatrix_trans_32x8_to_shared_16x16_layout = _index_map("i1:8 j8:2 i8 | j1:8")
mma_32x8_to_shared_16x16_layout = _index_map("j2:4 i1 | j1:2 i8:2 j8")
mma_load_a_32x16_to_shared_16x32_layout = _index_map("j4:4 i1 | j1:4 i8:2 j16")
mma_load_a_32x32_to_shared_16x64_layout = _index_map("j8:4 i1 | j1:8 i8:2 j32")
mma_load_a_32x4_to_shared_16x8_layout = _index_map("j1:4 i1 | i8:2 j4")
mma_load_a_32x8_to_shared_16x16_layout = _index_map("j2:4 i1 | j1:2 i8:2 j8")
mma_load_b_32x16_to_shared_16x32_layout = _index_map("j4:4 i1 | j1:4 j16:2 i8")
mma_load_b_32x16_to_shared_8x64_layout = _index_map("j8:4 i1 | j1:8 j32")
mma_load_b_32x4_to_shared_16x8_layout = _index_map("j1:4 i1 | j4:2 i8")
mma_load_b_32x8_to_shared_16x16_layout = _index_map("j2:4 i1 | j1:2 j8:2 i8")
mma_store_32x2_to_shared_8x8_layout_fp64 = _index_map("j2:4 i1 | j1")
mma_store_32x8_to_shared_16x16_layout = _index_map("j2:4 i1 | j1:2 i8:2 j8")
shared_16x16_to_mma_32x8_layout_rs_a = _index_map("l1:2 t1:4 l4 | t4:8 l2")
shared_16x16_to_mma_32x8_layout_rs_b = _index_map("l1:2 t1:4 l2 | t4:8 l4")
shared_16x16_to_mma_32x8_layout_sr_a = _index_map("t4:8 l2 | l1:2 t1:4 l4")
shared_16x16_to_mma_32x8_layout_sr_b = _index_map("t4:8 l4 | l1:2 t1:4 l2")
shared_16x16_to_mma_32x8_smoothlayout = _index_map("t2 | l1:8 t1")
shared_16x16_to_mma_a_32x8_layout = _index_map("t4:8 l2 | l1:2 t1:4 l4")
shared_16x16_to_mma_a_32x8_layout_trans = _index_map("l1:2 t1:4 l4 | t4:8 l2")
shared_16x16_to_mma_b_32x8_layout = _index_map("t4:8 l4 | l1:2 t1:4 l2")
shared_16x16_to_mma_b_32x8_layout_trans = _index_map("l1:2 t1:4 l2 | t4:8 l4")
shared_16x32_to_mma_32x16_layout_rs_a = _index_map("l1:4 t1:4 l8 | t4:8 l4")
shared_16x32_to_mma_32x16_layout_rs_b = _index_map("l1:4 t1:4 l4 | t4:8 l8")
shared_16x32_to_mma_32x16_layout_sr_a = _index_map("t4:8 l4 | l1:4 t1:4 l8")
shared_16x32_to_mma_32x16_layout_sr_b = _index_map("t4:8 l8 | l1:4 t1:4 l4")
shared_16x32_to_mma_32x16_smoothlayout = _index_map("t2 | l1:16 t1")
shared_16x32_to_mma_a_32x16_layout = _index_map("t4:8 l4 | l1:4 t1:4 l8")
shared_16x32_to_mma_b_32x16_layout = _index_map("t4:8 l8 | l1:4 t1:4 l4")
shared_16x64_to_mma_32x32_layout_rs_a = _index_map("l1:8 t1:4 l8 | t4:8 l16")
shared_16x64_to_mma_32x32_layout_sr_a = _index_map("t4:8 l16 | l1:8 t1:4 l8")
shared_16x64_to_mma_a_32x32_layout = _index_map("t4:8 l16 | l1:8 t1:4 l8")
shared_16x8_to_mma_32x4_layout_rs_a = _index_map("t1:4 l2 | t4:8 l1")
shared_16x8_to_mma_32x4_layout_rs_b = _index_map("t1:4 l1 | t4:8 l2")
shared_16x8_to_mma_32x4_layout_sr_a = _index_map("t4:8 l1 | t1:4 l2")
shared_16x8_to_mma_32x4_layout_sr_b = _index_map("t4:8 l2 | t1:4 l1")
shared_16x8_to_mma_a_32x4_layout = _index_map("t4:8 l1 | t1:4 l2")
shared_16x8_to_mma_a_32x4_layout_trans = _index_map("t1:4 l2 | t4:8 l1")
shared_16x8_to_mma_b_32x4_layout = _index_map("t4:8 l2 | t1:4 l1")
shared_16x8_to_mma_b_32x4_layout_trans = _index_map("t1:4 l1 | t4:8 l2")
shared_32x16_to_mma_32x16_smoothlayout = _index_map("t2 | l1:16 t1")
shared_32x16_to_mma_a_32x16_layout_trans = _index_map("l1:4 t1:4 l8 | t4:8 l4")
shared_32x16_to_mma_b_32x16_layout_trans = _index_map("l1:4 t1:4 l4 | t4:8 l8")
shared_64x16_to_mma_a_32x32_layout_trans = _index_map("l1:8 t1:4 l8 | t4:8 l16")
shared_64x8_to_mma_b_32x16_layout_trans = _index_map("l1:8 t1:4 l8 | t4")
shared_8x64_to_mma_32x16_layout_rs_b = _index_map("l1:8 t1:4 l8 | t4")
shared_8x64_to_mma_32x16_layout_sr_b = _index_map("t4 | l1:8 t1:4 l8")
shared_8x64_to_mma_b_32x16_layout = _index_map("t4 | l1:8 t1:4 l8")
