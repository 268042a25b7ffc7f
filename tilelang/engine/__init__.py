"""Lowering without launching, by the names that kernels import it under; the code lives in `tilelang.jit`."""

from tilelang.engine.callback import register_c_postproc, register_cuda_postproc, register_hip_postproc
from tilelang.engine.lower import is_device_call, lower
from tilelang.engine.param import CompiledArtifact, KernelParam

__all__ = [
    "CompiledArtifact",
    "KernelParam",
    "is_device_call",
    "lower",
    "register_c_postproc",
    "register_cuda_postproc",
    "register_hip_postproc",
]
