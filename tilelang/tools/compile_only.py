"""The source of a kernel without a device: `compile_kernel_source(func, "cuda")`."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from tilelang.jit.functions import JITFunction
from tilelang.jit.lowering import lower
from tilelang.language.functions import KernelFunction


def resolve_target(target: str) -> str | dict[str, str]:
    """A target's name for `tilelang.lower`; plain `cuda` is that of compute capability 8.0.

    Raises ValueError for "auto": which GPU there is must not change the source.
    """
    if target == "auto":
        raise ValueError("target must be explicit; do not use auto")
    return {"kind": "cuda", "arch": "sm_80"} if target == "cuda" else target


def compile_kernel_source(func: Any, target: str | Mapping[str, str] = "c") -> str:
    """The generated source of a function under `@T.prim_func`. Raises what `tilelang.lower` does."""
    return lower(func, target=resolve_target(target) if isinstance(target, str) else target).kernel_source


def cuda_codegen_available() -> bool:
    """Whether CUDA sources can be generated; here they always can."""
    return True


def load_example(path: str) -> ModuleType:
    """Run a file as a module whose name is not `__main__`. Raises ImportError if it cannot be read."""
    spec = importlib.util.spec_from_file_location("example", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def discover_prim_func(module: ModuleType) -> Any:
    """The first kernel that a module defines: its function under `@T.prim_func`, or the tile function of a
    `@tilelang.jit` function whose parameters all have defaults. Raises ValueError if it has none.
    """
    for value in vars(module).values():
        if issubclass(type(value), KernelFunction):
            return value
        if isinstance(value, JITFunction) and _has_defaults(value):
            return value.get_tir()
    raise ValueError(f"{module.__name__} has no kernel that is known without arguments")


def _has_defaults(function: JITFunction[Any, Any]) -> bool:
    parameters = inspect.signature(function.function).parameters.values()
    return all(p.default is not p.empty for p in parameters)
