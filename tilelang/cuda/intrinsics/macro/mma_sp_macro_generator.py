"""The emitter of products by sparse tensor cores, as kernels import it from here."""

from tilelang.language.sparse_emitters import SparseTensorCoreIntrinEmitter

__all__ = ["SparseTensorCoreIntrinEmitter"]
