"""The emitter of products by sparse wgmma, as kernels import it from here."""

from tilelang.language.sparse_emitters import WGSparseTensorCoreIntrinEmitter

SparseTensorCoreIntrinEmitter = WGSparseTensorCoreIntrinEmitter

__all__ = ["SparseTensorCoreIntrinEmitter"]
