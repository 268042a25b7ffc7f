"""The layout of a fragment under another shape or dtype: the same registers of the same threads."""

from __future__ import annotations

import math
from dataclasses import replace

from tilelang.layout.fragment import Digit, Fragment


def viewed(fragment: Fragment, shape: tuple[int, ...], bits: int, new_bits: int) -> Fragment | None:
    """The layout of a view of `shape` with elements of `new_bits` over a fragment with elements of `bits`.

    Both are row-major over the same bits. None where the fragment is padded, or where a wider element would
    lie in registers that are no neighbours.
    """
    if not fragment.exact:
        return None
    digits = list(fragment.digits)
    if new_bits < bits:
        digits = _split(digits, bits // new_bits)
    elif new_bits > bits:
        joined = _joined(digits, new_bits // bits)
        if joined is None:
            return None
        digits = joined
    if math.prod(d.extent for d in digits) != math.prod(shape):
        return None
    return Fragment(shape, tuple(digits), fragment.replicate)


def _split(digits: list[Digit], parts: int) -> list[Digit]:
    """Every element becomes `parts` neighbouring ones in neighbouring registers."""
    wider = [
        replace(
            d,
            stride=d.stride * parts,
            place_stride=d.place_stride * (parts if d.place == "register" else 1),
        )
        for d in digits
    ]
    first = wider[0] if wider else None
    if first is not None and first.place == "register" and first.place_stride == parts:
        return [Digit(1, parts * first.extent, "register", 1), *wider[1:]]
    return [Digit(1, parts, "register", 1), *wider]


def _joined(digits: list[Digit], parts: int) -> list[Digit] | None:
    """`parts` neighbours become one element; None where they are not registers side by side."""
    if not digits:
        return None
    first = digits[0]
    if first.place != "register" or first.place_stride != 1 or first.extent % parts:
        return None
    rest = [
        replace(
            d,
            stride=d.stride // parts,
            place_stride=d.place_stride // (parts if d.place == "register" else 1),
        )
        for d in digits[1:]
    ]
    left = first.extent // parts
    return [Digit(1, left, "register", 1), *rest] if left > 1 else rest
