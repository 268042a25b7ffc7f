"""`from tilelang.engine.lower import lower`: the code lives in `tilelang.jit`."""

from __future__ import annotations

from typing import Any

from tvm import tirx as X

from tilelang.arch.target import parse_target
from tilelang.jit.kernel_param import KernelParam
from tilelang.jit.lowering import CompiledArtifact, lower

__all__ = ["CompiledArtifact", "KernelParam", "extrac_params", "is_cpu_device_backend", "lower"]


def extrac_params(func: Any) -> list[KernelParam]:
    """The parameters of a tile function (or of a function under `@T.prim_func`) in call order."""
    return [
        KernelParam.from_buffer(p) if X.is_buffer_var(p) else KernelParam.from_var(p) for p in func.params
    ]


def is_cpu_device_backend(target: Any) -> bool:
    """Whether a target is the CPU, by LLVM or as C. Raises ValueError for what is no target."""
    return parse_target(target).kind == "cpu"
