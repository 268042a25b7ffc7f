"""Helpers around kernels: comparing tensors, making inputs."""

from __future__ import annotations

from tilelang.profiler.supply import TensorSupplyType
from tilelang.utils.deprecated import deprecated
from tilelang.utils.language import (
    array_reduce,
    get_prim_func_name,
    is_fragment,
    is_global,
    is_local,
    is_shared,
    is_shared_dynamic,
    retrieve_shape,
    retrieve_stride,
)
from tilelang.utils.tensor import torch_assert_close

__all__ = [
    "TensorSupplyType",
    "array_reduce",
    "deprecated",
    "get_prim_func_name",
    "is_fragment",
    "is_global",
    "is_local",
    "is_shared",
    "is_shared_dynamic",
    "retrieve_shape",
    "retrieve_stride",
    "torch_assert_close",
]
