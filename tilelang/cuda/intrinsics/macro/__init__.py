"""The emitters, as kernels import them from here."""

from tilelang.language.emitters import TensorCoreIntrinEmitter
from tilelang.language.ladder_emitter import TensorCoreIntrinEmitterWithLadderTransform

__all__ = ["TensorCoreIntrinEmitter", "TensorCoreIntrinEmitterWithLadderTransform"]
