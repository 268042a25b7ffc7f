"""Layouts: where the elements of a tile live, in shared memory (`shared`) and over threads and registers
(`fragment`). The names that kernels import from here are declarations of the language.
"""

from tilelang.language.layouts import (
    Fragment,
    Layout,
    make_cutlass_metadata_layout,
    make_full_bank_swizzled_layout,
    make_half_bank_swizzled_layout,
    make_linear_layout,
    make_quarter_bank_swizzled_layout,
    make_swizzled_layout,
    make_volta_swizzled_layout,
    make_wgmma_swizzled_layout,
)
from tilelang.layout.common_fragments import (
    make_fully_replicated_layout_fragment,
    make_gemm_fragment_8x8,
    make_gemm_fragment_8x8_transposed,
)
from tilelang.layout.swizzle_mode import SwizzleMode

__all__ = [
    "Fragment",
    "Layout",
    "SwizzleMode",
    "make_cutlass_metadata_layout",
    "make_full_bank_swizzled_layout",
    "make_fully_replicated_layout_fragment",
    "make_gemm_fragment_8x8",
    "make_gemm_fragment_8x8_transposed",
    "make_half_bank_swizzled_layout",
    "make_linear_layout",
    "make_quarter_bank_swizzled_layout",
    "make_swizzled_layout",
    "make_volta_swizzled_layout",
    "make_wgmma_swizzled_layout",
]
