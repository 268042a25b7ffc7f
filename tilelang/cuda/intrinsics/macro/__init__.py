"""The emitters, as kernels import them from here."""

from tilelang.language.emitters import TensorCoreIntrinEmitter, TensorCoreIntrinEmitterWithLadderTransform

__all__ = ["TensorCoreIntrinEmitter", "TensorCoreIntrinEmitterWithLadderTransform"]
