"""The adapter of the backend `cython`, where kernels import it from."""

from tilelang.jit.adapter.base import CythonKernelAdapter

__path__: list[str] = []  # modules inside it by their released paths: tilelang/released_modules.py
__all__ = ["CythonKernelAdapter"]
