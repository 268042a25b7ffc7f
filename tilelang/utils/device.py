"""The device that torch computes on, and the processors of this machine."""

from __future__ import annotations

import os
from typing import Any


def __getattr__(name: str) -> bool:
    """`IS_CUDA`, `IS_MPS`, `IS_NPU`: the kind of device that torch computes on, asked when it is read."""
    import torch

    if name == "IS_CUDA":
        return torch.cuda.is_available()
    if name == "IS_MPS":
        return torch.backends.mps.is_available()
    if name == "IS_NPU":
        return False
    raise AttributeError(f"module 'tilelang.utils.device' has no attribute {name!r}")


def get_current_device() -> Any:
    """The device of new tensors: the current GPU's number, Apple's GPU, or the CPU."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.current_device()
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def device_synchronize(device: Any = None) -> None:
    """Wait for the GPU, if there is one."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize(device)
    elif torch.backends.mps.is_available():
        torch.mps.synchronize()


def get_available_cpu_count() -> int:
    """Processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
