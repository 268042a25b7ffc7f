"""Bulk tensor copies (TMA): what a descriptor and coordinates name in global and in shared memory.

Written from the PTX ISA (5.5, tensor copies; "Shared memory swizzling") and the driver API's description of
cuTensorMapEncodeTiled, on purpose not from `tilelang.targets.cuda.ops.tma`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tests.emulator.memory import EmulationError, numpy_dtype
from tilelang.runtime.plan import TensorMap
from tilelang.runtime.sizes import compile_size

_BITS = {128: 7, 64: 3, 32: 1, 0: 0}  # swizzle -> mask of the chunk bits


def elements(tensor: TensorMap, corner: list[int], sizes: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """For every element of the box, innermost dimension last: its flat index, and whether it is inside."""
    shape = [compile_size(s).evaluate(sizes) for s in tensor.shape]
    item = numpy_dtype(tensor.dtype).itemsize
    strides = [item, *(compile_size(s).evaluate(sizes) for s in tensor.strides)]
    _check(tensor, shape, strides)
    axes = [c + np.arange(n) for c, n in zip(corner, tensor.box, strict=True)]
    grids = np.meshgrid(*reversed(axes), indexing="ij")
    index, inside = np.zeros(grids[0].shape, np.int64), np.ones(grids[0].shape, bool)
    for at, n, stride in zip(reversed(grids), shape, strides, strict=True):
        inside &= (at >= 0) & (at < n)
        index += at * (stride // item)
    return index.ravel(), inside.ravel()


def places(tensor: TensorMap, start: int) -> np.ndarray:
    """For every 16 bytes of the box, in order: the byte in shared memory where they lie."""
    total = int(np.prod(tensor.box)) * numpy_dtype(tensor.dtype).itemsize
    address = start + np.arange(0, total, 16)
    return address ^ ((address >> 7 & _BITS[tensor.swizzle]) << 4)


def _check(tensor: TensorMap, shape: list[int], strides: list[int]) -> None:
    inner = tensor.box[0] * strides[0]
    faults = {
        "more than five dimensions": not 1 <= len(shape) <= 5,
        "a box of more than 256": max(tensor.box) > 256,
        "an inner extent that is no multiple of 16 bytes": inner % 16 != 0,
        "a stride that is no multiple of 16 bytes": any(s % 16 for s in strides[1:]),
        "an inner extent wider than its swizzle": bool(tensor.swizzle) and inner > tensor.swizzle,
    }
    for what, wrong in faults.items():
        if wrong:
            raise EmulationError(f"the descriptor {tensor.name} has {what}")
