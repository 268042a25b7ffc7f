"""Layouts of shared tiles that are asked for outside a kernel, for a tensor described by shape and dtype.

Swizzles are those of the tensor-core instructions (PTX ISA, "Shared memory swizzling"): within an atom of 8
rows and 128, 64 or 32 bytes, the number of a chunk of 16 bytes is xored with a function of the row. A place
is (column of atoms, group of 8 rows, offset in the atom); leading dimensions stay as they are.
"""

from __future__ import annotations

import math
from typing import Any

from tilelang.arch.dtypes import element_bits
from tilelang.language.layout_objects import Layout
from tilelang.language.values import OutsideKernelError

_CHUNK_BITS = 128
_CHUNKS = (8, 4, 2)  # of an atom's row: 128, 64 and 32 bytes


def described(name: str, buffer: Any) -> tuple[list[int], int]:
    """The shape of a tensor and the bits of its elements.

    Raises OutsideKernelError for what has neither, ValueError for sizes that are no numbers.
    """
    whole = getattr(buffer, "buffer", buffer)
    if not hasattr(whole, "shape") or not hasattr(whole, "dtype"):
        raise OutsideKernelError(name)
    shape = [getattr(n, "value", n) for n in whole.shape]
    if not all(isinstance(n, int) for n in shape):
        raise ValueError(f"{name}: a layout is made for numbers, the shape is {tuple(whole.shape)}")
    return shape, element_bits(whole.dtype)


def linear(shape: list[int]) -> Layout:
    """Row-major."""
    return _pitched(shape, shape[-1])


def padded(shape: list[int], bits: int) -> Layout:
    """Rows that are a multiple of 32 bytes begin 16 bytes later each, in different banks."""
    return _pitched(shape, shape[-1] if shape[-1] * bits % 256 else shape[-1] + _CHUNK_BITS // bits)


def swizzled(shape: list[int], bits: int, chunks: int, name: str) -> Layout:
    """Atoms of `chunks` chunks per row. Raises ValueError for rows that they do not fill."""
    if not _fits(shape, bits, chunks):
        wide = chunks * 16
        raise ValueError(
            f"{name}: a {wide}-byte swizzle needs rows of a multiple of {wide} bytes, in eights; "
            f"the shape is {tuple(shape)} with elements of {bits} bits"
        )
    run = _CHUNK_BITS // bits
    width = chunks * run

    def place(*indices: Any) -> list[Any]:
        row, column = indices[-2:]
        phase = row % 8 // (8 // chunks)
        chunk = column % width // run ^ phase
        return [*indices[:-2], column // width, row // 8, row % 8 * width + chunk * run + column % run]

    return Layout(shape, place)


def operand(shape: list[int], bits: int, name: str, transposed: bool, allow_pad: bool) -> Layout:
    """The layout of a tensor-core operand: the widest swizzle that fills its rows, else padded rows.

    transposed: K does not run along the rows, for which bytes are padded rather than swizzled.
    """
    if transposed and bits == 8 and allow_pad:
        return padded(shape, bits)
    for chunks in _CHUNKS:
        if _fits(shape, bits, chunks):
            return swizzled(shape, bits, chunks, name)
    if allow_pad:
        return padded(shape, bits)
    if shape[-1] * bits % 256 == 0:
        return linear(shape)
    raise ValueError(
        f"{name}: no swizzle has rows of {shape[-1]} elements of {bits} bits: "
        "give them a multiple of 32 bytes"
    )


def _fits(shape: list[int], bits: int, chunks: int) -> bool:
    return len(shape) > 1 and shape[-1] * bits % (chunks * _CHUNK_BITS) == 0 and shape[-2] % 8 == 0


def _pitched(shape: list[int], pitch: int) -> Layout:
    """Row-major with rows of `pitch` elements."""
    steps = [math.prod([*shape[n + 1 : -1], pitch]) if n < len(shape) - 1 else 1 for n in range(len(shape))]

    def place(*indices: Any) -> Any:
        return sum(i * step for i, step in zip(indices, steps, strict=True))

    return Layout(shape, place)
