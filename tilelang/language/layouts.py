"""Layouts by hand: where the elements of a tile lie in memory, or in which threads and registers.

Also importable from `tilelang.layout`, as kernels do: `from tilelang.layout import make_swizzled_layout`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilelang.language.layout_objects import Fragment as Fragment
from tilelang.language.layout_objects import Layout as Layout
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
    raise OutsideKernelError("make_swizzled_layout")


def make_wgmma_swizzled_layout(buffer: Any, continuity: int | None = None, k_major: bool = True) -> Layout:
    """The widest swizzle of the asynchronous tensor cores that the rows of the tile allow."""
    raise OutsideKernelError("make_wgmma_swizzled_layout")


def make_mma_swizzle_layout(shared_buf: Any, is_smooth: bool = False) -> Layout:
    """As `make_swizzled_layout`; is_smooth: rows one after the other instead."""
    raise OutsideKernelError("make_mma_swizzle_layout")


def make_volta_swizzled_layout(buffer: Any, is_a: bool = True, k_inner: bool = True) -> Layout:
    """As `make_swizzled_layout`: this compiler has one family of swizzles."""
    raise OutsideKernelError("make_volta_swizzled_layout")


def make_full_bank_swizzled_layout(buffer: Any) -> Layout:
    """Rows of whole 128-byte atoms, chunks exchanged over all 32 banks."""
    raise OutsideKernelError("make_full_bank_swizzled_layout")


def make_half_bank_swizzled_layout(buffer: Any) -> Layout:
    """Rows of whole 64-byte atoms, chunks exchanged over half of the banks."""
    raise OutsideKernelError("make_half_bank_swizzled_layout")


def make_quarter_bank_swizzled_layout(buffer: Any) -> Layout:
    """Rows of whole 32-byte atoms, chunks exchanged over a quarter of the banks."""
    raise OutsideKernelError("make_quarter_bank_swizzled_layout")


def make_linear_layout(buffer: Any) -> Layout:
    """Row-major, without swizzle or padding."""
    raise OutsideKernelError("make_linear_layout")
