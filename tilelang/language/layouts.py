"""Layouts by hand: where the elements of a tile lie in memory, or in which threads and registers.

Also importable from `tilelang.layout`, as kernels do: `from tilelang.layout import make_swizzled_layout`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilelang.language.values import OutsideKernelError


def _extents(shape: Any) -> list[Any]:
    return list(shape) if isinstance(shape, tuple | list) else [shape]


class Layout:
    """Where the elements of a tile of `shape` lie: `T.Layout((64, 64), lambda i, j: (i, j ^ (i % 8 * 8)))`.

    forward_fn: indices -> one index, or one per dimension of the memory; integer arithmetic with + - * // %
    & | ^ << >>. No two elements may lie at the same place. For shared tiles and global tensors. Made outside
    a kernel it is a plain record of its arguments, which kernels may use.
    """

    def __init__(self, shape: Any, forward_fn: Callable[..., Any]) -> None:
        self.given: dict[str, Any] = {"shape": shape, "forward_fn": forward_fn}  # read by the compiler

    def get_input_shape(self) -> list[Any]:
        """The extents of the tile."""
        return _extents(self.given["shape"])

    def map_forward_index(self, indices: Any) -> list[Any]:
        """The place of the element at `indices`, one index per dimension of the memory."""
        found = self.given["forward_fn"](*indices)
        return list(found) if isinstance(found, tuple | list) else [found]


class Fragment:
    """Which thread holds which element of a fragment, and in which of its registers.

    forward_fn: indices (and, with replicate > 1, the number of the copy last) -> (thread, register). Or give
    the two apart as forward_thread_fn and forward_index_fn; without the latter registers are numbered in
    order. Made outside a kernel it is a plain record of its arguments, which kernels may use.
    """

    def __init__(
        self,
        shape: Any,
        forward_fn: Callable[..., Any] | None = None,
        forward_thread_fn: Callable[..., Any] | None = None,
        replicate: int = 1,
        forward_index_fn: Callable[..., Any] | None = None,
    ) -> None:
        self.given: dict[str, Any] = {  # read by the compiler
            "shape": shape,
            "forward_fn": forward_fn,
            "forward_thread_fn": forward_thread_fn,
            "replicate": replicate,
            "forward_index_fn": forward_index_fn,
        }

    def get_input_shape(self) -> list[Any]:
        """The extents of the tile."""
        return _extents(self.given["shape"])


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
