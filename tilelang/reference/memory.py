"""Tensors and tiles of the reference: raw elements of their dtype, poisoned when fresh, bounds checked.

A storage holds one copy of the elements, or one copy per lane for memory that is private to a thread. Floats
are read as float64; a store rounds to the dtype, 8-bit floats saturate as the language's conversions do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from tilelang.arch.float_formats import FORMATS
from tilelang.reference.errors import NoMeaning, ReferenceFailure

_BYTE = 0x55  # integers that nobody wrote consist of these
_FOUR_BITS = ("int4", "uint4")


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The numpy dtype that holds one element. Raises NoMeaning for one that numpy cannot hold."""
    if dtype == "bfloat16" or dtype in FORMATS or dtype in _FOUR_BITS:
        return np.dtype(getattr(ml_dtypes, dtype))
    try:
        return np.dtype(dtype)
    except TypeError:
        raise NoMeaning(f"the reference has no memory of {dtype} elements") from None


def is_float(dtype: str) -> bool:
    """Whether values of `dtype` are computed with in float64."""
    return dtype.startswith(("float", "bfloat"))


def rounded(values: Any, dtype: str) -> np.ndarray:
    """`values` as elements of `dtype`: floats to nearest even, integers modulo 2**bits, floats to integers
    towards zero.
    """
    array = np.asarray(values)
    kind = numpy_dtype(dtype)
    with np.errstate(all="ignore"):
        if is_float(dtype):
            narrow = FORMATS.get(dtype)
            if narrow is not None:
                array = np.clip(array.astype(np.float64), -narrow.largest, narrow.largest)
            return array.astype(np.float64).astype(kind)
        if array.dtype.kind == "f" and (kind.kind in "iu" or dtype in _FOUR_BITS):
            return np.nan_to_num(array).astype(np.int64).astype(kind)
        return array.astype(kind)


@dataclass
class Storage:
    """Elements of one allocation or tensor: `data` is [lanes or 1, size], row-major."""

    name: str
    data: np.ndarray

    @staticmethod
    def fresh(name: str, dtype: str, size: int) -> Storage:
        """Poisoned memory for `size` elements."""
        kind = numpy_dtype(dtype)
        if is_float(dtype):
            return Storage(name, np.full((1, size), np.nan).astype(kind))
        if kind == np.bool_:
            return Storage(name, np.ones((1, size), kind))
        if dtype in _FOUR_BITS:
            return Storage(name, np.full((1, size), _BYTE & 15).astype(kind))
        return Storage(name, np.full((1, size * kind.itemsize), _BYTE, np.uint8).view(kind))


@dataclass
class Tensor:
    """A name for a storage: shape, strides (in elements) and dtype of a tensor, a tile or a view."""

    name: str
    scope: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    storage: Storage
    safe_value: float = 0  # what a read outside a global tensor gives

    @property
    def private(self) -> bool:
        """Whether every thread has its own copy."""
        return self.scope in ("local", "local.var")

    def of(self, lane: int) -> Tensor:
        """The same memory as one thread has it."""
        data = self.storage.data
        own = Storage(self.storage.name, data[lane : lane + 1] if data.shape[0] > 1 else data)
        return replace(self, storage=own)

    def elements(self) -> np.ndarray:
        """[copies, n]: the storage in this name's dtype."""
        return self.storage.data.view(numpy_dtype(self.dtype))

    def address(self, indices: Sequence[Any], active: np.ndarray, span: Any) -> tuple[np.ndarray, np.ndarray]:
        """(offset of the element, whether it exists), each shaped like `active` broadcast with the indices.

        Raises ReferenceFailure for an active access outside anything but a global tensor.
        """
        if len(indices) != len(self.shape):
            raise ReferenceFailure(
                f"{self.name} has {len(self.shape)} dimensions but {len(indices)} indices", span
            )
        inside = np.asarray(True)
        offset = np.asarray(0)
        for index, extent, stride in zip(indices, self.shape, self.strides, strict=True):
            at = np.asarray(index, np.int64)
            inside = inside & (at >= 0) & (at < extent)
            offset = offset + at * stride
        inside, offset, wanted = np.broadcast_arrays(inside, offset, active)
        if self.scope != "global" and (wanted & ~inside).any():
            lane = tuple(np.argwhere(wanted & ~inside)[0])
            place = ", ".join(str(int(np.broadcast_to(i, inside.shape)[lane])) for i in indices)
            shape = ", ".join(map(str, self.shape))
            raise ReferenceFailure(f"{self.name}[{place}] is outside {self.name} of shape ({shape})", span)
        return np.where(inside, offset, 0), np.asarray(inside)

    def load(self, indices: Sequence[Any], active: np.ndarray, span: Any = None) -> np.ndarray:
        """The elements; `safe_value` where a global tensor has none. Floats come as float64."""
        offset, inside = self.address(indices, active, span)
        elements = self.elements()
        if self.private and elements.shape[0] > 1:
            lanes = np.arange(elements.shape[0]).reshape(-1, *[1] * (offset.ndim - 1))
            found = elements[np.broadcast_to(lanes, offset.shape), offset]
        else:
            found = elements[0][offset] if elements.shape[1] else np.zeros(offset.shape, elements.dtype)
        if is_float(self.dtype):
            found = found.astype(np.float64)
        return np.where(inside, found, np.asarray(self.safe_value).astype(found.dtype))

    def store(self, indices: Sequence[Any], values: Any, active: np.ndarray, span: Any = None) -> None:
        """Round and write where `active`; writes outside a global tensor are skipped."""
        offset, inside = self.address(indices, active, span)
        chosen = inside & np.broadcast_to(active, inside.shape)
        new = np.broadcast_to(rounded(values, self.dtype), offset.shape)
        elements = self.elements()
        if self.private and elements.shape[0] > 1:
            lanes = np.broadcast_to(
                np.arange(elements.shape[0]).reshape(-1, *[1] * (offset.ndim - 1)), offset.shape
            )
            elements[lanes[chosen], offset[chosen]] = new[chosen]
        else:
            elements[0][offset[chosen]] = new[chosen]


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a dense tensor."""
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))
