"""Functions of the author's that say which target "auto" is, and what other spellings of targets mean.

They hold for the process: what is registered decides for every kernel that names no target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

BUILT_IN = "cuda"  # the GPU that torch sees is asked for before all others


@dataclass(frozen=True)
class TargetDetectorSpec:
    """detect() is a target, or None where there is no such device."""

    name: str
    detect: Callable[[], Any]


@dataclass(frozen=True)
class TargetNormalizerSpec:
    """normalize(spelling) is the target that is meant, or None for a spelling that is not its own."""

    name: str
    normalize: Callable[[Any], Any]


_DETECTORS: dict[str, TargetDetectorSpec] = {}
_NORMALIZERS: dict[str, TargetNormalizerSpec] = {}


def register_target_detector(
    name: str, detect: Callable[[], Any], *, override: bool = False
) -> TargetDetectorSpec:
    """Ask `detect` for the target of "auto" where torch sees no GPU, after those registered before it.

    Raises ValueError if one of that name is registered and `override` is False.
    """
    if not override and (name in _DETECTORS or name == BUILT_IN):
        raise ValueError(f"Target detector {name!r} is already registered")
    spec = _DETECTORS[name] = TargetDetectorSpec(name, detect)
    return spec


def register_target_normalizer(
    name: str, normalize: Callable[[Any], Any], *, override: bool = False
) -> TargetNormalizerSpec:
    """Ask `normalize` what a spelling of a target means, before it is read.

    Raises ValueError if one of that name is registered and `override` is False.
    """
    if not override and name in _NORMALIZERS:
        raise ValueError(f"Target normalizer {name!r} is already registered")
    spec = _NORMALIZERS[name] = TargetNormalizerSpec(name, normalize)
    return spec


def list_target_detectors() -> tuple[str, ...]:
    """The names of the detectors in the order in which they are asked."""
    return (BUILT_IN, *(name for name in _DETECTORS if name != BUILT_IN))


def detected() -> Any:
    """The target that the registered detectors find, the first of them; None if none does."""
    found = (spec.detect() for spec in _DETECTORS.values())
    return next((target for target in found if target is not None), None)


def normalized(target: Any) -> Any:
    """A spelling of a target as the registered functions put it; itself where none knows it."""
    found = (spec.normalize(target) for spec in _NORMALIZERS.values())
    return next((meant for meant in found if meant is not None), target)


def detectors_stamp() -> tuple[Any, ...]:
    """Changes whenever a detector is registered."""
    return tuple(id(spec) for spec in _DETECTORS.values())
