"""`from tilelang.engine.lower import lower`: the code lives in `tilelang.jit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx as X

from tilelang.arch.target import parse_target
from tilelang.jit.kernel_param import KernelParam
from tilelang.jit.lowering import LOWERED, CompiledArtifact, lower

__all__ = [
    "CompiledArtifact",
    "KernelParam",
    "extrac_params",
    "get_device_call",
    "get_host_call",
    "is_cpu_device_backend",
    "is_device_call",
    "lower",
]


def extrac_params(func: Any) -> list[KernelParam]:
    """The parameters of a tile function (or of a function under `@T.prim_func`) in call order."""
    return [
        KernelParam.from_buffer(p) if X.is_buffer_var(p) else KernelParam.from_var(p) for p in func.params
    ]


def is_cpu_device_backend(target: Any) -> bool:
    """Whether a target is the CPU, by LLVM or as C. Raises ValueError for what is no target."""
    return parse_target(target).kind == "cpu"


def is_device_call(func: Any) -> bool:
    """Whether a lowered function is code of the device: all of `tilelang.lower(...).device_mod` is."""
    return bool(func.attrs) and LOWERED in func.attrs


def get_device_call(is_device_c: bool = False) -> Callable[[Any], bool]:
    """The question whether a function is code of the device. is_device_c: accepted; C is no other code."""
    return is_device_call


def get_host_call(is_device_c: bool = False) -> Callable[[Any], bool]:
    """The question whether a function is code of the host, of which `tilelang.lower` makes none."""
    return lambda func: not is_device_call(func)
