"""How far a swizzle of shared memory reaches, as TMA descriptors and wgmma operands name it."""

from __future__ import annotations

from enum import IntEnum


class SwizzleMode(IntEnum):
    """No swizzle, or the exchange of 16-byte pieces within rows of 32, 64 or 128 bytes."""

    NONE = 0
    SWIZZLE_32B = 1
    SWIZZLE_64B = 2
    SWIZZLE_128B = 3

    def is_none(self) -> bool:
        """Whether nothing is exchanged."""
        return self is SwizzleMode.NONE

    def is_swizzle_32b(self) -> bool:
        """Whether rows of 32 bytes are swizzled."""
        return self is SwizzleMode.SWIZZLE_32B

    def is_swizzle_64b(self) -> bool:
        """Whether rows of 64 bytes are swizzled."""
        return self is SwizzleMode.SWIZZLE_64B

    def is_swizzle_128b(self) -> bool:
        """Whether rows of 128 bytes are swizzled."""
        return self is SwizzleMode.SWIZZLE_128B

    def swizzle_byte_size(self) -> int:
        """Bytes of a row; 1 without a swizzle."""
        return 1 if self is SwizzleMode.NONE else 16 << self

    def swizzle_atom_size(self) -> int:
        """Pieces of 16 bytes in a row; 1 without a swizzle."""
        return max(1, self.swizzle_byte_size() // 16)

    def smem_alignment(self) -> int:
        """The alignment in bytes that TMA asks of such a tile: eight rows (PTX ISA 5.5.6, "tensor-swizzling
        modes"); 128 without a swizzle.
        """
        return 128 if self is SwizzleMode.NONE else 8 * self.swizzle_byte_size()

    def wgmma_layout_type(self) -> int:
        """The mode in a wgmma matrix descriptor (PTX ISA 9.7.15.5.1.2, bits 62 and 63)."""
        return {0: 0, 1: 3, 2: 2, 3: 1}[self]

    def tcgen05_layout_type(self) -> int:
        """The mode in a tcgen05 matrix descriptor (PTX ISA 9.7.16.4.1, bits 61 to 63)."""
        return {0: 0, 1: 6, 2: 4, 3: 2}[self]
