"""The emitter of products by warp groups, as kernels import it from here."""

from tilelang.language.wgmma_emitter import WGMMATensorCoreIntrinEmitter

TensorCoreIntrinEmitter = WGMMATensorCoreIntrinEmitter

__all__ = ["TensorCoreIntrinEmitter"]
