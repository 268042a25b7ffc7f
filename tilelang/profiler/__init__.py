"""Measures kernels and compares them with a reference: `do_bench`, `Profiler`, `TensorSupplyType`."""

from __future__ import annotations

from tilelang.profiler.bench import do_bench
from tilelang.profiler.profiler import Profiler
from tilelang.profiler.supply import TensorSupplyType
from tilelang.utils.tensor import get_tensor_supply, torch_assert_close

__all__ = ["Profiler", "TensorSupplyType", "do_bench", "get_tensor_supply", "torch_assert_close"]
