"""What a matrix descriptor of `wgmma` says of a tile in shared memory, as numbers for kernel code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilelang.language.values import OutsideKernelError


@dataclass(frozen=True)
class WGMMADescriptorParams:
    """The fields of `T.initialize_wgmma_descriptor`, and the steps from one instruction's part to the next.

    swizzle_mode: a `tilelang.layout.SwizzleMode`. leading_byte_offset, stride_byte_offset: in units of 16
    bytes. swizzle_atom_elems: elements in a row of an atom; k_atom_size: how many instructions go along it.
    k_panel_elems: elements from a column of atoms to the next, of a tile with K innermost and several.
    """

    swizzle_mode: Any
    leading_byte_offset: int
    stride_byte_offset: int
    swizzle_atom_elems: int
    k_atom_size: int
    elems_in_bytes: int
    is_k_major: bool
    slice_byte_offset: Any = 0
    k_panel_elems: int | None = None

    def k_panel_stride(self, mn_extent: int) -> int:
        """Elements from a column of atoms to the next, in a tile of `mn_extent` rows if there is but one."""
        return mn_extent * self.swizzle_atom_elems if self.k_panel_elems is None else self.k_panel_elems


def compute_gmma_descriptor(
    tl_layout: Any, buffer: Any, transposed: bool, micro_size_k: int = 16, region: Any = None
) -> WGMMADescriptorParams:
    """How `wgmma` reads a tile of two dimensions that is laid out swizzled (PTX ISA 9.7.16.5.1.2).

    tl_layout: as `make_wgmma_swizzled_layout(buffer)` makes it. transposed: whether K is not the innermost
    dimension. micro_size_k: products along K of one instruction. region: not supported; move the descriptor.
    """
    raise OutsideKernelError("compute_gmma_descriptor")
