"""Products of matrices by single instructions, as kernels import what they need for them from here."""

from tilelang.language.emitters import (
    TensorCoreIntrinEmitter,
    get_ldmatrix_offset,
    get_mma_micro_size,
    get_swizzle_layout,
    mma_store_index_map,
)
from tilelang.language.ladder_emitter import TensorCoreIntrinEmitterWithLadderTransform
from tilelang.language.layouts import make_mma_swizzle_layout
from tilelang.language.sparse_emitters import (
    SparseTensorCoreIntrinEmitter,
    WGSparseTensorCoreIntrinEmitter,
)

__all__ = [
    "SparseTensorCoreIntrinEmitter",
    "TensorCoreIntrinEmitter",
    "TensorCoreIntrinEmitterWithLadderTransform",
    "WGSparseTensorCoreIntrinEmitter",
    "get_ldmatrix_offset",
    "get_mma_micro_size",
    "get_swizzle_layout",
    "make_mma_swizzle_layout",
    "mma_store_index_map",
]
