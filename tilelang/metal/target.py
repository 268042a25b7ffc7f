"""Whether a target is an Apple GPU, as code around kernels asks it."""

from __future__ import annotations

from typing import Any

from tilelang.arch.target import parse_target


def target_is_metal(target: Any) -> bool:
    """Whether it is an Apple GPU. Raises ValueError for what is no target."""
    return parse_target(target).kind == "metal"
