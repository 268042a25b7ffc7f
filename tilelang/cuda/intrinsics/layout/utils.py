"""Index arithmetic of the fragments of `mma.sync`."""

from tilelang.language.emitters import get_ldmatrix_offset, get_mma_micro_size, mma_store_index_map

__all__ = ["get_ldmatrix_offset", "get_mma_micro_size", "mma_store_index_map"]
