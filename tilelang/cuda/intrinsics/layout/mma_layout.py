"""Layouts of shared tiles that `ldmatrix` reads."""

from tilelang.language.emitters import get_swizzle_layout
from tilelang.language.layouts import make_mma_swizzle_layout

__all__ = ["get_swizzle_layout", "make_mma_swizzle_layout"]
