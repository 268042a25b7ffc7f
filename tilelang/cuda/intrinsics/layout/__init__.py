"""Index arithmetic of tensor cores, as kernels import it from here."""

from tilelang.language.emitters import (
    get_ldmatrix_offset,
    get_mma_micro_size,
    get_swizzle_layout,
    mma_store_index_map,
)
from tilelang.language.layouts import make_mma_swizzle_layout

__all__ = [
    "get_ldmatrix_offset",
    "get_mma_micro_size",
    "get_swizzle_layout",
    "make_mma_swizzle_layout",
    "mma_store_index_map",
]
