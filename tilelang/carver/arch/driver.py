"""What the GPU of this machine has, as kernels ask it: `from tilelang.carver.arch import driver`."""

from __future__ import annotations

import ctypes
from typing import Any

__path__: list[str] = []  # modules inside it by their released paths: tilelang/released_modules.py


def get_cuda_device_properties(device_id: int = 0) -> Any:
    """The properties of a GPU as torch knows them; None without one."""
    import torch

    there = torch.cuda.is_available() and device_id < torch.cuda.device_count()
    return torch.cuda.get_device_properties(device_id) if there else None


def get_device_name(device_id: int = 0) -> str | None:
    """The name of a GPU; None without one."""
    properties = get_cuda_device_properties(device_id)
    return None if properties is None else str(properties.name)


def get_num_sms(device_id: int = 0) -> int:
    """How many multiprocessors a GPU has. Raises RuntimeError without one."""
    properties = get_cuda_device_properties(device_id)
    if properties is None:
        raise RuntimeError(f"there is no GPU {device_id} whose multiprocessors could be counted")
    return int(properties.multi_processor_count)


def get_registers_per_block(device_id: int = 0) -> int | None:
    """The 32-bit registers of a multiprocessor, all of which one block may have; None without a GPU."""
    properties = get_cuda_device_properties(device_id)
    return None if properties is None else int(properties.regs_per_multiprocessor)


def get_shared_memory_per_block(device_id: int = 0, format: str = "bytes") -> int | None:
    """The shared memory that a block has without asking for more; None without a GPU.

    format: `bytes`, `kb` or `mb`. Raises ValueError for another one.
    """
    properties = get_cuda_device_properties(device_id)
    return None if properties is None else _in_format(int(properties.shared_memory_per_block), format)


def get_max_dynamic_shared_size_bytes(device_id: int = 0, format: str = "bytes") -> int | None:
    """The shared memory that a block can ask for; None without a GPU.

    format: `bytes`, `kb` or `mb`. Raises ValueError for another one.
    """
    properties = get_cuda_device_properties(device_id)
    if properties is None:
        return None
    most = getattr(properties, "shared_memory_per_block_optin", properties.shared_memory_per_block)
    return _in_format(int(most), format)


def get_l2_cache_size(device_id: int = 0, format: str = "bytes") -> int | None:
    """The L2 cache of a GPU; None without one.

    format: `bytes`, `kb` or `mb`. Raises ValueError for another one.
    """
    properties = get_cuda_device_properties(device_id)
    return None if properties is None else _in_format(int(properties.L2_cache_size), format)


# CUdevice_attribute of the driver's API
_MAX_PERSISTING_L2_CACHE_SIZE = 108


def get_persisting_l2_cache_max_size(device_id: int = 0) -> int | None:
    """The bytes of the L2 cache that can be set aside for data that persists; None without a GPU."""
    return get_device_attribute(_MAX_PERSISTING_L2_CACHE_SIZE, device_id)


def get_device_attribute(attr: int, device_id: int = 0) -> int | None:
    """An attribute of a GPU by its number (cudaDeviceAttr, CUdevice_attribute); None without a GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, value = ctypes.c_int(), ctypes.c_int()
    asked = (
        driver.cuInit(0)
        or driver.cuDeviceGet(ctypes.byref(device), device_id)
        or driver.cuDeviceGetAttribute(ctypes.byref(value), attr, device)
    )
    return None if asked else value.value


def _in_format(count: int, format: str) -> int:
    units = {"bytes": 1, "kb": 1024, "mb": 1024 * 1024}
    if format not in units:
        raise ValueError(f"unknown format {format!r}: write one of {', '.join(units)}")
    return count // units[format]
