"""Slices along the last dimension alone, which are vectors: how long they are, and where they lie."""

from __future__ import annotations

from typing import Any

from tilelang.arch.dtypes import dtype_info
from tilelang.ir.values import Region, Unknown, as_int


def slice_length(region: Region) -> int | None:
    """How many elements a subscript names whose last entry alone is a slice."""
    if not region.indices or not region.fits_rank:
        return None
    *outer, last = region.indices
    return None if any(i.extent is not None for i in outer) else as_int(last.extent)


def vector_length(region: Region) -> int | None:
    """The length of a slice that a vector of its elements has."""
    length, dtype = slice_length(region), region.buffer.dtype
    if length is None or length < 2 or isinstance(dtype, Unknown):
        return None
    try:
        return length if dtype_info(f"{dtype}x{length}").lanes == length else None
    except ValueError:
        return None


def is_slice(value: Any) -> bool:
    """Whether `value` is a part of a tile that a vector can hold."""
    return isinstance(value, Region) and vector_length(value) is not None
