"""Requests to the compiler that change speed and never the result."""

from __future__ import annotations

from typing import Literal

from tilelang.language.values import OutsideKernelError


def use_swizzle(panel_size: int, order: Literal["row", "column"] = "row", enable: bool = True) -> None:
    """Visit the blocks of the grid in panels of `panel_size` rows (or columns), so that neighbours share
    the L2 cache.
    """
    raise OutsideKernelError("use_swizzle")
