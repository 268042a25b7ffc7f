"""Helpers around kernels: comparing tensors, making inputs."""

from __future__ import annotations

from tilelang.profiler.supply import TensorSupplyType
from tilelang.utils.tensor import torch_assert_close

__all__ = ["TensorSupplyType", "torch_assert_close"]
