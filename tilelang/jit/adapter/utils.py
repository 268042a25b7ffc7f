"""Which kind of device a target names, as code around kernels asks it."""

from __future__ import annotations

from typing import Any

from tilelang.arch.target import parse_target

__all__ = ["is_cpu_target", "is_cuda_target", "is_cutedsl_target", "is_hip_target", "is_metal_target"]


def is_cuda_target(target: Any) -> bool:
    """Whether a target (a name, a mapping, tvm's object) is an NVIDIA GPU. Raises ValueError for none."""
    return parse_target(target).kind == "cuda"


def is_hip_target(target: Any) -> bool:
    """Whether a target is an AMD GPU."""
    return parse_target(target).kind == "hip"


def is_metal_target(target: Any) -> bool:
    """Whether a target is an Apple GPU."""
    return parse_target(target).kind == "metal"


def is_cpu_target(target: Any) -> bool:
    """Whether a target is the CPU, by LLVM or as C."""
    return parse_target(target).kind == "cpu"


def is_cutedsl_target(target: Any) -> bool:
    """False: kernels are not written as CuTe DSL."""
    parse_target(target)
    return False
