"""What an AMD target is and has, as code around kernels asks it: `target_is_cdna(target)`.

Each takes a target in any form (a name, a mapping, tvm's object) and raises ValueError for what is no target.
"""

from __future__ import annotations

import re
from typing import Any

from tilelang.arch.target import parse_target


def target_get_mcpu(target: Any) -> str:
    """The architecture, such as gfx942; empty for other kinds of device."""
    read = parse_target(target)
    return read.arch if read.kind == "hip" else ""


def target_is_hip(target: Any) -> bool:
    """Whether it is an AMD GPU."""
    return bool(target_get_mcpu(target))


def target_is_cdna(target: Any) -> bool:
    """Whether it is a data-centre GPU (gfx9)."""
    return target_get_mcpu(target).startswith("gfx9")


def target_is_gfx950(target: Any) -> bool:
    """Whether it is a gfx950."""
    return target_get_mcpu(target).startswith("gfx950")


def target_is_rdna(target: Any) -> bool:
    """Whether it is a graphics GPU (gfx10 and later)."""
    return target_get_rdna_generation(target) > 0


def target_get_rdna_generation(target: Any) -> int:
    """11 for gfx1100; 0 for a target of another family."""
    found = re.match(r"gfx(1[0-9])", target_get_mcpu(target))
    return int(found.group(1)) if found else 0


def target_get_warp_size(target: Any) -> int:
    """Threads that run in step: 64 on data-centre GPUs, 32 elsewhere."""
    return parse_target(target).warp_size
