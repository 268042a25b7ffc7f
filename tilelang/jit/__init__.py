"""Compiles kernels when they are called: the decorator, kernels, the disk cache, saved kernels."""

from __future__ import annotations

from tilelang.env import disable_cache, enable_cache, is_cache_enabled
from tilelang.jit.decorator import compile, jit, par_compile
from tilelang.jit.functions import JITFunction
from tilelang.jit.kernel import JITKernel, load
from tilelang.jit.lowering import CompiledArtifact, lower
from tilelang.jit.pass_configs import PassConfigKey
from tilelang.jit.postprocess import register_c_postproc, register_cuda_postproc, register_hip_postproc

JITImpl = JITFunction  # the name that kernels import

__all__ = [
    "CompiledArtifact",
    "JITFunction",
    "JITImpl",
    "JITKernel",
    "PassConfigKey",
    "compile",
    "disable_cache",
    "enable_cache",
    "is_cache_enabled",
    "jit",
    "load",
    "lower",
    "par_compile",
    "register_c_postproc",
    "register_cuda_postproc",
    "register_hip_postproc",
]
