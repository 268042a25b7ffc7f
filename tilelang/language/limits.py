"""The ends of a dtype's range as Python numbers that know their dtype: T.infinity and kin."""

from __future__ import annotations

from math import inf
from sys import float_info
from typing import Any

from tilelang.arch.float_formats import float_format
from tilelang.language.dtypes import DType, DTypeLike
from tilelang.language.typed_numbers import TypedFloat, TypedInt
from tilelang.language.values import Scalar


def infinity(dtype: DTypeLike) -> Scalar:
    """Positive infinity of a float dtype; outside a kernel a Python number with `.dtype`."""
    return TypedFloat(inf, DType(dtype))  # type: ignore[return-value]


def max_value(dtype: DTypeLike) -> Scalar:
    """The largest finite number of a dtype; outside a kernel a Python number with `.dtype`."""
    return _limit(dtype, True)


def min_value(dtype: DTypeLike) -> Scalar:
    """The smallest (most negative) finite number of a dtype; outside a kernel a number with `.dtype`."""
    return _limit(dtype, False)


_LARGEST = {"float64": float_info.max, "float32": 3.4028234663852886e38, "float16": 65504.0}
_LARGEST["bfloat16"] = 3.3895313892515355e38


def _limit(dtype: DTypeLike, upper: bool) -> Any:
    made = DType(dtype)
    name = str(made)
    if (narrow := float_format(name)) is not None:
        lowest = -narrow.largest if narrow.sign else narrow.value(0)
        return TypedFloat(narrow.largest if upper else lowest, made)
    if name in _LARGEST:
        return TypedFloat(_LARGEST[name] if upper else -_LARGEST[name], made)
    if name == "bool":
        return TypedInt(int(upper), made)
    digits = name.removeprefix("u").removeprefix("int")
    if not digits.isdecimal():
        raise ValueError(f"{name} has no largest number")
    bits = int(digits)
    if name.startswith("u"):
        return TypedInt(2**bits - 1 if upper else 0, made)
    return TypedInt(2 ** (bits - 1) - 1 if upper else -(2 ** (bits - 1)), made)
