"""What an NVIDIA target is and has, as code around kernels asks it: `target_is_hopper(target)`.

Each takes a target in any form (a name, a mapping, tvm's object), answers False for other kinds of device,
and raises ValueError for what is no target.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tilelang.arch.target import parse_target


def _sm(target: Any) -> int:
    """The number of the architecture; 0 for other kinds."""
    read = parse_target(target)
    return read.sm if read.kind == "cuda" else 0


def check_cuda_availability() -> bool:
    """Whether a CUDA toolkit is installed."""
    return shutil.which("nvcc") is not None or Path("/usr/local/cuda").is_dir()


def target_is_cuda(target: Any) -> bool:
    """Whether it is an NVIDIA GPU."""
    return _sm(target) > 0


def target_is_volta(target: Any) -> bool:
    """Whether it is of compute capability 7.0 or 7.2."""
    return 70 <= _sm(target) < 75


def target_is_turing(target: Any) -> bool:
    """Whether it is of compute capability 7.5."""
    return 75 <= _sm(target) < 80


def target_is_ampere(target: Any) -> bool:
    """Whether it is of compute capability 8, Ada included."""
    return 80 <= _sm(target) < 90


def target_is_hopper(target: Any) -> bool:
    """Whether it is of compute capability 9."""
    return 90 <= _sm(target) < 100


def target_is_sm120(target: Any) -> bool:
    """Whether it is of compute capability 12."""
    return 120 <= _sm(target) < 130


def target_has_async_copy(target: Any) -> bool:
    """Whether it has `cp.async`."""
    return _sm(target) >= 80


def target_has_ldmatrix(target: Any) -> bool:
    """Whether it has `ldmatrix`."""
    return _sm(target) >= 75


def target_has_stmatrix(target: Any, is_m16n8: bool = False) -> bool:
    """Whether it has `stmatrix`; is_m16n8: in the shape of 8-bit elements, from compute capability 10 on."""
    return _sm(target) >= (100 if is_m16n8 else 90)


def target_has_bulk_copy(target: Any) -> bool:
    """Whether it has bulk copies (TMA)."""
    return _sm(target) >= 90
