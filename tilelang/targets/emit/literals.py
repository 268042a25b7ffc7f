"""Constants in C: exact, and as short as exactness allows."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from tilelang.arch.float_formats import FORMATS

_FLOATS: dict[str, type] = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
    **{name: getattr(ml_dtypes, name) for name in FORMATS},
}


def integer(value: int, dtype: str, int64_suffix: str) -> str:
    """`7`, `7u`, `7LL`, `7ULL`; the smallest number is written so that no compiler warns."""
    if dtype == "bool":
        return "true" if value else "false"
    bits = int(dtype.lstrip("uint") or 32)
    suffix = ("u" if dtype.startswith("u") and bits >= 32 else "") + (int64_suffix if bits > 32 else "")
    if value == -(2**31) and bits == 32:
        return "(-2147483647 - 1)"
    if value == -(2**63):
        return f"(-9223372036854775807{suffix} - 1)"
    return f"{value}{suffix.upper() if bits > 32 else suffix}"


def decimal(value: float, dtype: str) -> str:
    """Digits that, read as float32 (or float64), give exactly the `dtype` rounding of a finite `value`."""
    if dtype == "float64":
        return repr(float(value))
    rounded = _FLOATS[dtype](value)
    if rounded and float(rounded) == int(rounded) and abs(float(rounded)) < 1e7:
        return f"{int(rounded)}.0"  # 16380 would do for the float16 16384, and mislead whoever reads it
    short = repr(float(np.float32(float(f"{float(rounded):.7g}"))))
    with np.errstate(
        over="ignore"
    ):  # a rounded-up candidate may pass the largest number; then it is not taken
        for digits in range(1, 10):
            text = f"{float(rounded):.{digits}g}"
            if _FLOATS[dtype](np.float32(text)) == rounded:
                short = text
                break
    number = float(short)
    if number == int(number) and abs(number) < 1e7:
        return f"{int(number)}.0" if not (number == 0 and math.copysign(1, number) < 0) else "-0.0"
    return short if any(c in short for c in ".e") else f"{short}.0"
