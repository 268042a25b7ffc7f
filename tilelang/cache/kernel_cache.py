"""The cache as an object: `KernelCache().cached(func)`. All backends share the one cache in `jit.cache`."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

from tilelang.jit.cache import cache_dir, forget_loaded, loaded_kernels
from tilelang.jit.decorator import compile
from tilelang.jit.kernel import JITKernel


class KernelCache:
    """Compiled kernels, in this process and on disk. There is one of each class: `KernelCache()` is it."""

    execution_backend = "tvm_ffi"
    _instance: KernelCache | None = None

    def __new__(cls) -> KernelCache:
        if "_instance" not in cls.__dict__ or cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    @property
    def cache_root_dir(self) -> str:
        """The folder that holds the artifacts, one folder each."""
        return str(cache_dir())

    @property
    def _memory_cache(self) -> MutableMapping[Any, JITKernel]:
        """The kernels of this process that somebody holds; tests of kernels empty it by this name."""
        return loaded_kernels()

    def cached(
        self,
        func: Any = None,
        out_idx: int | Sequence[int] | None = None,
        *args: Any,
        target: Any = None,
        target_host: Any = None,
        execution_backend: str | None = None,
        verbose: bool | None = None,
        pass_configs: Mapping[Any, Any] | None = None,
        compile_flags: str | Sequence[str] | None = None,
        backend_context: Any = None,
    ) -> JITKernel:
        """The kernel of `func`, from the cache where it holds it: what `tilelang.compile` does.

        args, backend_context: accepted and without meaning here, where target and options say everything.
        """
        return compile(
            func, out_idx, execution_backend, target, target_host, verbose, pass_configs, compile_flags
        )

    def clear_cache(self) -> None:
        """Forget the compiled kernels of this process and on disk; those that somebody holds stay usable."""
        forget_loaded()
        for artifact in cache_dir().glob("*/meta.json"):
            shutil.rmtree(artifact.parent, ignore_errors=True)


class TVMFFIKernelCache(KernelCache):
    """The cache by the name of the backend `tvm_ffi`."""


class CythonKernelCache(KernelCache):
    """The cache by the name of the backend `cython`."""

    execution_backend = "cython"


class NVRTCKernelCache(KernelCache):
    """The cache by the name of the backend `nvrtc`."""

    execution_backend = "nvrtc"


class TorchKernelCache(KernelCache):
    """The cache by the name of the backend `torch`, which is Metal's."""

    execution_backend = "torch"
