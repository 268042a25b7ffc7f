"""Swizzles: numbers with some bits exchanged by others, and layouts that go through one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tilelang.layout.cute.layouts import Layout
from tilelang.layout.cute.tuples import ScaledBasis
from tilelang.layout.swizzle_mode import SwizzleMode


@dataclass(frozen=True)
class Swizzle:
    """`Sw<b,m,s>`: the b bits from bit m on are exclusive-ored with the b bits s places above them."""

    b_bits: int
    m_base: int
    s_shift: int

    @staticmethod
    def parse(text: str) -> Swizzle:
        """What a text such as `Sw<3,4,3>` says. Raises ValueError for another."""
        match = re.fullmatch(r"\s*Sw<(\d+),(\d+),(-?\d+)>\s*", text)
        if match is None:
            raise ValueError(f"Swizzle text must be 'Sw<b,m,s>', not {text!r}")
        return Swizzle(*map(int, match.groups()))

    @property
    def is_swizzled(self) -> bool:
        """Whether a bit changes."""
        return self.b_bits > 0

    def apply(self, number: int) -> int:
        """A number with its bits exchanged."""
        mask = ((1 << self.b_bits) - 1) << self.m_base
        return number ^ (number >> self.s_shift & mask)

    def recast(self, old_bits: int, new_bits: int) -> Swizzle:
        """The same for places counted in elements of another width."""
        if not self.is_swizzled:
            return self
        base = self.m_base + old_bits.bit_length() - new_bits.bit_length()
        if base < 0:
            raise ValueError(f"{self} exchanges parts of elements of {new_bits} bits")
        return Swizzle(self.b_bits, base, self.s_shift)

    def to_swizzle_mode(self) -> SwizzleMode:
        """The mode of TMA and wgmma, for places counted in bytes. Raises ValueError where they have none."""
        if not self.is_swizzled:
            return SwizzleMode.NONE
        if self.m_base != 4 or self.s_shift != 3 or self.b_bits > 3:
            raise ValueError(f"Not a canonical GMMA swizzle atom: {self}")
        return SwizzleMode(self.b_bits)

    def __repr__(self) -> str:
        return f"Sw<{self.b_bits},{self.m_base},{self.s_shift}>"


@dataclass(frozen=True)
class ComposedLayout:
    """A swizzle of a layout: `Sw<3,3,3> o 0 o (8,64):(64,1)`; the offset is added before the swizzle."""

    swizzle: Swizzle
    offset: Any
    layout: Layout

    @staticmethod
    def from_tilelang(
        layout: Any, buffer: Any = None, least_b_bits: int | None = None
    ) -> ComposedLayout | None:
        """A layout of the language as a swizzle of one of the algebra; None for one that is neither.

        buffer: count places in bytes of its elements. least_b_bits: None for a swizzle of fewer bits.
        """
        from tilelang.layout.cute.convert import swizzled

        return swizzled(layout, buffer, least_b_bits)

    def recast(self, old_bits: int, new_bits: int) -> ComposedLayout:
        """The same for elements of another width: along the dense dimension there are more or fewer of them.

        Raises ValueError where a new element is no whole number of old ones side by side.
        """
        leaves = self.layout.flat()
        if any(isinstance(d, ScaledBasis) for _, d in leaves):
            raise ValueError(f"strides of {self.layout} are no numbers")

        def scaled(shape: Any, stride: Any) -> tuple[Any, Any]:
            if isinstance(shape, tuple):
                parts = [scaled(n, d) for n, d in zip(shape, stride, strict=True)]
                return tuple(n for n, _ in parts), tuple(d for _, d in parts)
            return (_ratio(shape, old_bits, new_bits), 1) if stride == 1 else (
                shape, _ratio(stride, old_bits, new_bits)
            )  # fmt: skip

        shape, stride = scaled(self.layout.shape, self.layout.stride)
        offset = _ratio(self.offset, old_bits, new_bits)
        return ComposedLayout(self.swizzle.recast(old_bits, new_bits), offset, Layout(shape, stride))

    def __call__(self, coord: Any) -> int:
        """The number of a coordinate."""
        return self.swizzle.apply(self.offset + self.layout(coord))

    def __repr__(self) -> str:
        return f"{self.swizzle} o {self.offset} o {self.layout}"


def _ratio(number: int, old_bits: int, new_bits: int) -> int:
    if number * old_bits % new_bits:
        raise ValueError(f"{number} elements of {old_bits} bits are no whole number of {new_bits} bits")
    return number * old_bits // new_bits
