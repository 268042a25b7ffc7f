"""Layouts by hand: where the elements of a tile lie in memory, or in which threads and registers.

Also importable from `tilelang.layout`, as kernels do: `from tilelang.layout import make_swizzled_layout`.
Called outside a kernel for something with a shape and a dtype (a buffer of tvm, a tensor), they return the
layout as an object (`language.swizzles`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilelang.language.layout_objects import Fragment as Fragment
from tilelang.language.layout_objects import Layout as Layout
from tilelang.language.metadata_layouts import metadata_place
from tilelang.language.swizzles import described, linear, operand, swizzled
from tilelang.language.values import OutsideKernelError


def annotate_layout(layout_map: Mapping[Any, Any]) -> None:
    """Decide where tiles lie: `T.annotate_layout({A_shared: make_swizzled_layout(A_shared)})`.

    layout_map: tile -> `T.Layout`, `T.Fragment`, or a function of the indices. For shared tiles and fragments
    it changes speed only, and nothing on the CPU. A global tensor is stored in that order, also for whoever
    reads it later.
    """
    raise OutsideKernelError("annotate_layout")


def make_swizzled_layout(buffer: Any, k_major: bool = True, allow_pad: bool = True) -> Layout:
    """The layout of a tensor-core operand: chunks of 16 bytes exchanged within rows of 128, 64 or 32 bytes,
    so that eight rows lie in different banks; else rows padded by 16 bytes.
    """
    shape, bits = described("make_swizzled_layout", buffer)
    return operand(shape, bits, "make_swizzled_layout", not k_major, allow_pad)


def make_wgmma_swizzled_layout(buffer: Any, continuity: int | None = None, k_major: bool = True) -> Layout:
    """The widest swizzle of the asynchronous tensor cores that the rows of the tile allow."""
    shape, bits = described("make_wgmma_swizzled_layout", buffer)
    return operand(shape, bits, "make_wgmma_swizzled_layout", not k_major, False)


def make_mma_swizzle_layout(shared_buf: Any, is_smooth: bool = False) -> Layout:
    """As `make_swizzled_layout`; is_smooth: rows one after the other instead."""
    shape, bits = described("make_mma_swizzle_layout", shared_buf)
    if is_smooth:
        return linear(shape)
    return operand(shape, bits, "make_mma_swizzle_layout", False, True)


def make_volta_swizzled_layout(buffer: Any, is_a: bool = True, k_inner: bool = True) -> Layout:
    """As `make_swizzled_layout`: this compiler has one family of swizzles."""
    shape, bits = described("make_volta_swizzled_layout", buffer)
    return operand(shape, bits, "make_volta_swizzled_layout", not k_inner, True)


def make_full_bank_swizzled_layout(buffer: Any) -> Layout:
    """Rows of whole 128-byte atoms, chunks exchanged over all 32 banks."""
    name = "make_full_bank_swizzled_layout"
    return swizzled(*described(name, buffer), 8, name)


def make_half_bank_swizzled_layout(buffer: Any) -> Layout:
    """Rows of whole 64-byte atoms, chunks exchanged over half of the banks."""
    name = "make_half_bank_swizzled_layout"
    return swizzled(*described(name, buffer), 4, name)


def make_quarter_bank_swizzled_layout(buffer: Any) -> Layout:
    """Rows of whole 32-byte atoms, chunks exchanged over a quarter of the banks."""
    name = "make_quarter_bank_swizzled_layout"
    return swizzled(*described(name, buffer), 2, name)


def make_cutlass_metadata_layout(
    buffer: Any, mma_dtype: Any = "float16", arch: str | None = None, block_k: int | None = None
) -> Layout:
    """CUTLASS's order of the metadata of a 2:4 sparse operand (`T.gemm_sp`); it changes no result.

    arch: compute capability, as in `"8.0"`; block_k: elements of K in a tile, for `"9.0"`. Raises ValueError
    for metadata that the order is not made for.
    """
    shape, bits = described("make_cutlass_metadata_layout", buffer)
    return Layout(shape, metadata_place(shape, bits, mma_dtype, arch, block_k))


def make_linear_layout(buffer_or_load_or_region: Any) -> Layout:
    """Row-major, without swizzle or padding."""
    return linear(described("make_linear_layout", buffer_or_load_or_region)[0])
