"""Compiles kernels when they are called: the decorator, kernels, the disk cache, saved kernels."""

from __future__ import annotations

from tilelang.jit.cache import disable_cache, enable_cache
from tilelang.jit.decorator import compile, jit, lower, par_compile
from tilelang.jit.kernel import JITKernel, load
from tilelang.jit.pass_configs import PassConfigKey

__all__ = [
    "JITKernel",
    "PassConfigKey",
    "compile",
    "disable_cache",
    "enable_cache",
    "jit",
    "load",
    "lower",
    "par_compile",
]
