"""The adapter of the backend `cython`, where kernels import it from."""

from tilelang.jit.adapter.base import CythonKernelAdapter

__all__ = ["CythonKernelAdapter"]
