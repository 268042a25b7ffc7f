"""Conversions between integer dtypes that may change the number: cut off, or taken for a signed one.

TVM's analyzer takes a conversion to keep its number (https://github.com/apache/tvm, `const_int_bound.cc`
intersects both ranges), so of `int32(ballot)` it believes that it is never negative.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir
from tvm import tirx as X


def may_wrap(cast: X.Cast) -> bool:
    """Whether an integer conversion may give another number. Indices, 64 bits made 32, are taken to fit."""
    source, target = _integer(cast.value), _integer(cast)
    if source is None or target is None:
        return False
    (was_signed, was_wide), (signed, wide) = source, target
    if was_wide < wide or (was_wide == wide and was_signed == signed):
        return was_signed and not signed  # -1 as uint64
    if was_signed and signed and (was_wide, wide) == (64, 32):
        return _reads_data(cast.value)
    return True


def limits_of(cast: X.Cast) -> tuple[int, int]:
    """The least and the largest number of an integer conversion's dtype."""
    signed, bits = _integer(cast) or (True, 64)
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def _reads_data(value: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(value, ((ir.TensorLoad, ir.Call), found.append))
    return bool(found)


def _integer(value: Any) -> tuple[bool, int] | None:
    """(signed, bits) of an integer expression or vector of them; None for anything else."""
    element = str(value.ty).partition("x")[0]
    width = element.removeprefix("u").removeprefix("int")
    return (not element.startswith("u"), int(width)) if width.isdigit() and "int" in element else None
