"""The cache of compiled kernels as users meet it: compile through it, empty it. It lives in `jit.cache`."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from tilelang.env import disable_cache, enable_cache, is_cache_enabled
from tilelang.jit.cache import cache_dir, forget_loaded
from tilelang.jit.decorator import compile
from tilelang.jit.kernel import JITKernel

__all__ = ["cached", "clear_cache", "disable_cache", "enable_cache", "is_cache_enabled"]


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
    return compile(
        func, out_idx, execution_backend, target, target_host, verbose, pass_configs, compile_flags
    )


def clear_cache() -> None:
    """Forget the compiled kernels of this process and on disk. Kernels that somebody holds stay usable."""
    forget_loaded()
    folder = cache_dir()
    for artifact in folder.glob("*/meta.json"):
        shutil.rmtree(artifact.parent, ignore_errors=True)
