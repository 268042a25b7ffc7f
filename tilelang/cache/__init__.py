"""The cache of compiled kernels as users meet it: compile through it, empty it. It lives in `jit.cache`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tilelang.cache.kernel_cache import (
    CythonKernelCache,
    KernelCache,
    NVRTCKernelCache,
    TorchKernelCache,
    TVMFFIKernelCache,
)
from tilelang.env import disable_cache, enable_cache, is_cache_enabled
from tilelang.jit.kernel import JITKernel

__all__ = [
    "CythonKernelCache",
    "JITKernel",
    "KernelCache",
    "NVRTCKernelCache",
    "TVMFFIKernelCache",
    "TorchKernelCache",
    "cached",
    "clear_cache",
    "disable_cache",
    "enable_cache",
    "is_cache_enabled",
]

# Backend -> its cache, by the name that code around kernels looks it up under.
_dispatch_map: Mapping[str, KernelCache] = MappingProxyType(
    {
        "tvm_ffi": TVMFFIKernelCache(),
        "cython": CythonKernelCache(),
        "nvrtc": NVRTCKernelCache(),
        "torch": TorchKernelCache(),
    }
)


def cached(
    func: Any = None,
    out_idx: int | Sequence[int] | None = None,
    *args: Any,
    target: Any = None,
    target_host: Any = None,
    execution_backend: str | None = None,
    verbose: bool | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: str | Sequence[str] | None = None,
) -> JITKernel:
    """The kernel of `func`, from the disk cache where it holds it: what `tilelang.compile` does."""
    return KernelCache().cached(
        func,
        out_idx,
        *args,
        target=target,
        target_host=target_host,
        execution_backend=execution_backend,
        verbose=verbose,
        pass_configs=pass_configs,
        compile_flags=compile_flags,
    )


def clear_cache() -> None:
    """Forget the compiled kernels of this process and on disk. Kernels that somebody holds stay usable."""
    KernelCache().clear_cache()
