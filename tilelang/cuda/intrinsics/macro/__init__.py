"""The emitters, as kernels import them from here."""

from tilelang.language.emitters import TensorCoreIntrinEmitter

__all__ = ["TensorCoreIntrinEmitter"]
