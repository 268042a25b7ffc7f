"""What one benchmark does: inputs on a device, the kernel's options, the peer that it is compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32


@dataclass(frozen=True)
class Work:
    """One kernel's job. The kernel is compiled from `compiled_from` (the inputs, if None) and `options`."""

    inputs: tuple[Any, ...]
    peer: Callable[[], object]
    peer_name: str
    flops: float = 0  # multiplications and additions of tensor cores
    moved: float = 0  # bytes that must come from memory or go there
    peak: str = "f16"  # which of the device's peaks `flops` count against
    compiled_from: tuple[Any, ...] | None = None
    options: dict[str, Any] = field(default_factory=dict)


def randn(*shape: int, dtype: torch.dtype = F16, device: str) -> torch.Tensor:
    return torch.randn(shape, dtype=F32 if dtype.itemsize == 1 else dtype, device=device).to(dtype)


def ints(low: int, high: int, *shape: int, dtype: torch.dtype = torch.int32, device: str) -> torch.Tensor:
    return torch.randint(low, high, shape, dtype=dtype, device=device)


def size_of(*tensors: torch.Tensor) -> int:
    """Bytes of tensors that are each read or written once."""
    return sum(t.numel() * t.element_size() for t in tensors)


def workers(device: str) -> int:
    """Multiprocessors, an H200's where there is no GPU."""
    return torch.cuda.get_device_properties(0).multi_processor_count if device == "cuda" else 132
