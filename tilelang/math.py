"""Integer arithmetic on the host, for tile sizes and grids."""

from __future__ import annotations


def cdiv(a: int, b: int) -> int:
    """`a / b` rounded up. Raises ZeroDivisionError for b = 0."""
    return -(-a // b)


def next_power_of_2(x: int) -> int:
    """The smallest power of two that is not below `x`; 1 for anything below 2."""
    return 1 if x < 2 else 1 << (x - 1).bit_length()
