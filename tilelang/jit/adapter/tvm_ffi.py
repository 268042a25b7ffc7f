"""The adapter of the backend `tvm_ffi`, where kernels import it from."""

from tilelang.jit.adapter.base import TVMFFIKernelAdapter

__all__ = ["TVMFFIKernelAdapter"]
