"""Constants that a dtype cannot hold, and what they become when they are stored all the same."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tilelang.arch.dtypes import DTYPES
from tilelang.arch.float_formats import FORMATS
from tilelang.diagnostics.rule import Rule
from tilelang.diagnostics.rules.dtype import CONSTANT_FRACTION, CONSTANT_OVERFLOW, CONSTANT_RANGE
from tilelang.ir.evaluate import is_choice
from tilelang.ir.values import Buffer, as_int

from tvm import tirx as X  # isort: skip

_LARGEST_HALF = 65504.0


def unfit_constant(value: Any, buffer: Buffer) -> tuple[Rule, dict[str, Any]] | None:
    """The rule and the fields of the message for a constant stored in `buffer`; None if it fits, or is none.

    All ones fit, in either way to write them: -1 in an unsigned integer, 0xFFFFFFFF in an int32. Of a choice
    each value counts.
    """
    found = (_unfit(number, buffer) for number in _numbers(value))
    return next((unfit for unfit in found if unfit is not None), None)


def _unfit(number: int | float | None, buffer: Buffer) -> tuple[Rule, dict[str, Any]] | None:
    info = DTYPES.get(str(buffer.dtype))
    if number is None or info is None or info.kind == "bool":
        return None
    fields: dict[str, Any] = {"value": _text(number), "buffer": buffer.name, "dtype": info.name}
    if info.is_float:
        return _unfit_float(number, info.name, fields)
    low = 0 if info.kind == "uint" else -(1 << (info.bits - 1))
    high = low + (1 << info.bits) - 1
    if isinstance(number, float) and math.isfinite(number):
        if number != int(number):
            return CONSTANT_FRACTION, {**fields, "becomes": int(number)}
        number = int(number)
    all_ones = -1 if info.kind == "uint" else (1 << info.bits) - 1
    if low <= number <= high or number == all_ones:
        return None
    wrapped = f", so it becomes {(number - low) % (1 << info.bits) + low}" if isinstance(number, int) else ""
    return CONSTANT_RANGE, {**fields, "low": low, "high": high, "becomes": wrapped}


def _unfit_float(number: float, dtype: str, fields: dict[str, Any]) -> tuple[Rule, dict[str, Any]] | None:
    form = FORMATS.get(dtype)
    if form is None:
        if dtype != "float16" or not math.isfinite(number) or abs(number) <= _LARGEST_HALF:
            return None
        return CONSTANT_OVERFLOW, {**fields, "largest": "65504", "becomes": "infinite"}
    if math.isnan(number) or abs(number) <= form.largest:
        return None
    if math.isinf(number) and form.infinity_code is not None:
        return None
    return CONSTANT_OVERFLOW, {**fields, "largest": _text(form.largest), "becomes": _text(form.largest)}


def _numbers(value: Any) -> Iterator[int | float | None]:
    """The constant that a value is, or those between which it chooses."""
    if isinstance(value, X.Select):
        chosen: tuple[Any, ...] = (value.true_value, value.false_value)
    elif is_choice(value):
        chosen = tuple(value.args[1:])
    else:
        yield _number(value)
        return
    for one in chosen:
        yield from _numbers(one)


def _number(value: Any) -> int | float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    if isinstance(value, X.FloatImm):
        return float(value.value)
    return as_int(value)


def _text(number: float) -> str:
    if isinstance(number, float):
        return f"{number:g}"
    # Python refuses to write integers of more than 4300 digits.
    return str(number) if abs(number) < 1 << 256 else f"an integer of {number.bit_length()} bits"
