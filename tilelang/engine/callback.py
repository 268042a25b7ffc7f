"""Functions that edit the generated source, and the decorators that register them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.jit.postprocess import (
    Postprocess,
    register_c_postproc,
    register_cuda_postproc,
    register_hip_postproc,
)

__all__ = [
    "register_c_postproc",
    "register_c_postproc_callback",
    "register_cuda_postproc",
    "register_cuda_postproc_callback",
    "register_hip_postproc",
    "register_hip_postproc_callback",
]


def register_cuda_postproc_callback(
    func: Postprocess | bool | None = None, override: bool = True
) -> Postprocess | Callable[[Postprocess], Postprocess]:
    """Edit CUDA sources by `func(source, target)`: `@register_cuda_postproc_callback`, also with brackets, in
    which `override` says whether it may take the place of another one.

    Raises TypeError for what is no function, ValueError if one is registered and `override` is False.
    """
    return _decorator(register_cuda_postproc, func, override)


def register_hip_postproc_callback(
    func: Postprocess | bool | None = None, override: bool = True
) -> Postprocess | Callable[[Postprocess], Postprocess]:
    """As `register_cuda_postproc_callback`, for HIP."""
    return _decorator(register_hip_postproc, func, override)


def register_c_postproc_callback(
    func: Postprocess | bool | None = None, override: bool = True
) -> Postprocess | Callable[[Postprocess], Postprocess]:
    """As `register_cuda_postproc_callback`, for the C that target `c` shows: comments may be added."""
    return _decorator(register_c_postproc, func, override)


def _decorator(register: Callable[[Any, bool], Postprocess], func: Any, override: bool) -> Any:
    if func is None or isinstance(func, bool):
        chosen = override if func is None else func
        return lambda function: register(function, chosen)
    if not callable(func):
        raise TypeError(f"a function (source, target) -> source is registered, not {type(func).__name__}")
    return register(func, override)
