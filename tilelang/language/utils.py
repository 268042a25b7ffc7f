"""Arithmetic of indices for helpers of kernels: `from tilelang.language.utils import linear_index`."""

from __future__ import annotations

from typing import Any

from tilelang.language.math import index_to_coordinates

__all__ = ["index_to_coordinates", "linear_index"]


def linear_index(*args: Any) -> Any:
    """The flat index of coordinates in row-major order: `linear_index(i, j, stride)` is `i * stride + j`.

    args: the coordinates, then the extents of all dimensions but the first. Raises ValueError if their
    numbers do not fit.
    """
    count = (len(args) + 1) // 2
    coordinates, extents = args[:count], args[count:]
    if not args or len(extents) != count - 1:
        raise ValueError("Stride count must be one less than coordinate count")
    index = coordinates[0]
    for position, extent in zip(coordinates[1:], extents, strict=True):
        index = index * extent + position
    return index
