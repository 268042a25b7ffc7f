"""Vectors of a few elements, as values of dtypes such as `float32x4`: made, and taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilelang.language.values import OutsideKernelError, Scalar


def extract_lane(vector: Any, lane: int) -> Scalar:
    """Element `lane` of a vector, counted from 0; known at compile time."""
    raise OutsideKernelError("extract_lane")


def Shuffle(vectors: Sequence[Any], indices: Sequence[Any]) -> Scalar:
    """The elements `indices`, known at compile time, of `vectors` put side by side; a number if it is one."""
    raise OutsideKernelError("Shuffle")


def Broadcast(value: Any, lanes: int) -> Scalar:
    """A vector of `lanes` elements that are all `value`."""
    raise OutsideKernelError("Broadcast")


def broadcast(value: Any, lanes: int) -> Scalar:
    """A vector of `lanes` elements that are all `value`."""
    raise OutsideKernelError("broadcast")


def vectorlow(dtype: Any, vec: Any) -> Scalar:
    """The first half of the elements of a vector, which are `dtype` together."""
    raise OutsideKernelError("vectorlow")


def vectorhigh(dtype: Any, vec: Any) -> Scalar:
    """The second half of the elements of a vector, which are `dtype` together."""
    raise OutsideKernelError("vectorhigh")


def vectorcombine(dtype: Any, vec1: Any, vec2: Any) -> Scalar:
    """Two vectors side by side, `dtype` together."""
    raise OutsideKernelError("vectorcombine")
