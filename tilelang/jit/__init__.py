"""Compiles kernels when they are called: the decorator, kernels, the disk cache, saved kernels.

Names are loaded when they are first used (PEP 562): a saved kernel needs neither the compiler nor tvm.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tilelang.env import disable_cache, enable_cache, is_cache_enabled

if TYPE_CHECKING:
    from tilelang.jit.decorator import compile, jit, par_compile
    from tilelang.jit.functions import JITFunction
    from tilelang.jit.functions import JITFunction as JITImpl
    from tilelang.jit.kernel import JITKernel, load
    from tilelang.jit.lowering import CompiledArtifact, lower
    from tilelang.jit.pass_configs import PassConfigKey
    from tilelang.jit.postprocess import register_c_postproc, register_cuda_postproc, register_hip_postproc

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

_HOME = {
    "CompiledArtifact": "lowering",
    "JITFunction": "functions",
    "JITKernel": "kernel",
    "PassConfigKey": "pass_configs",
    "compile": "decorator",
    "jit": "decorator",
    "load": "kernel",
    "lower": "lowering",
    "par_compile": "decorator",
    "register_c_postproc": "postprocess",
    "register_cuda_postproc": "postprocess",
    "register_hip_postproc": "postprocess",
}
_OTHER_NAMES = {"JITImpl": "JITFunction"}  # that kernels import


def __getattr__(name: str) -> Any:
    own = _OTHER_NAMES.get(name, name)
    if own not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[own]}"), own)
    globals()[name] = value
    return value
