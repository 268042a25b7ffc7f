"""Which target a kernel is compiled for, from what users write."""

from __future__ import annotations

from typing import Any

from tvm.target import Target

from tilelang.arch import target as targets
from tilelang.jit.options import default_target
from tilelang.jit.target_detectors import (
    TargetDetectorSpec,
    TargetNormalizerSpec,
    list_target_detectors,
    normalized,
    register_target_detector,
    register_target_normalizer,
)

__all__ = [
    "TargetDetectorSpec",
    "TargetNormalizerSpec",
    "auto_detect_target",
    "determine_target",
    "list_target_detectors",
    "register_target_detector",
    "register_target_normalizer",
]


def auto_detect_target() -> Any:
    """The target that a kernel without one gets."""
    return _described(default_target())


def determine_target(target: Any = "auto", return_object: bool = False) -> Any:
    """`target` itself where the compiler knows it, "auto" as the target that a kernel without one gets.

    return_object: as a target object of tvm. Raises ValueError for one that the compiler does not know, or
    that tvm has no object of.
    """
    if target in (None, "auto"):
        target = auto_detect_target()
    else:
        target = normalized(target)
        targets.parse_target(target)
    if not return_object:
        return target
    return target if isinstance(target, Target) else Target(target)


def _described(found: targets.Target) -> Any:
    """One of our targets as tvm takes it."""
    return {"kind": "cuda", "arch": found.arch} if found.kind == "cuda" else "llvm"
