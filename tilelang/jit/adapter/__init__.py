"""What carries out launches, by the names of the backends that kernels ask for."""

from tilelang.jit.adapter.base import (
    BaseKernelAdapter,
    CythonKernelAdapter,
    MetalKernelAdapter,
    NVRTCKernelAdapter,
    TVMFFIKernelAdapter,
)

__all__ = [
    "BaseKernelAdapter",
    "CythonKernelAdapter",
    "MetalKernelAdapter",
    "NVRTCKernelAdapter",
    "TVMFFIKernelAdapter",
]
