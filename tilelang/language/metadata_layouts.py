"""Where the metadata of a 2:4 sparse operand lies in the orders of CUTLASS, as its kernels read it.

Up to sm_89 rows of a group are interleaved and 2x2 blocks exchanged along their diagonal (CUTLASS,
`reorder_meta`); on sm_90 it is the order of the asynchronous instructions' atoms, per tile of `block_k`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilelang.arch.dtypes import element_bits

Place = Callable[[Any, Any], Sequence[Any]]


def metadata_place(
    shape: Sequence[int], bits: int, mma_dtype: Any, arch: str | None, block_k: int | None
) -> Place:
    """The function from row and column to the place.

    bits: of an element of the metadata. arch: `9.0` and the like; None is sm_90 where `block_k` is given.
    Raises ValueError for metadata that the order is not made for.
    """
    if len(shape) != 2:
        raise ValueError(f"metadata has two dimensions, the shape is {tuple(shape)}")
    width = element_bits(mma_dtype)
    hopper = block_k is not None if arch is None else float(arch) >= 9
    wanted = (8,) if hopper else {8: (32,), 16: (16,)}.get(width, (16, 32))
    if bits not in wanted:
        expected = " or ".join(map(str, wanted))
        raise ValueError(f"metadata of {mma_dtype} operands has {expected} bits, not {bits}")
    if not hopper:
        return _interleaved(shape[0], shape[1], bits)
    if block_k is None or block_k % 8 or shape[1] % (block_k // 8):
        raise ValueError(f"block_k must be a multiple of 8 that divides {shape[1] * 8}, not {block_k}")
    return _atoms(shape[0], block_k // 8, width)


def _interleaved(rows: int, columns: int, bits: int) -> Place:
    group, ways = (32, 4) if bits == 16 else (16, 2)
    if rows % group or columns % 2:
        found = f"{rows} rows and {columns} columns"
        raise ValueError(f"metadata of {bits} bits comes in {group} rows and 2 columns, not {found}")

    def place(i: Any, j: Any) -> Sequence[Any]:
        row = i // group * group + i % 8 * ways + i % group // 8
        right = row % 2 * (1 - j % 2)  # odd row and even column: they change places with their diagonal
        left = (1 - row % 2) * (j % 2)
        row, column = row - right + left, j + right - left
        offset = column // 2 * (2 * rows) + row * 2 + column % 2
        return [offset // columns, offset % columns]

    return place


def _atoms(rows: int, tile: int, width: int) -> Place:
    """tile: columns of the metadata of one tile of K."""

    def place(i: Any, j: Any) -> Sequence[Any]:
        start, column = j // tile * (rows * tile), j % tile
        if width == 8:
            return [start + i * tile + column]
        group = i // 16 * (16 * tile) + i % 8 * tile
        if width == 16:
            parts = column % 4 // 2 * (8 * tile) + column // 4 * 4 + i % 16 // 8 * 2 + column % 2
        else:
            parts = column % 2 * (8 * tile) + column // 2 * 2 + i % 16 // 8
        return [start + group + parts]

    return place
