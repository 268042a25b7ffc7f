"""Descriptors for bulk tensor copies (TMA), encoded by the driver for the tensors of a launch.

CUDA driver API, cuTensorMapEncodeTiled: 128 bytes that depend on the address and the sizes of a tensor, so
those of the last launches are kept. The driver refuses an extent of 0; a tensor without elements is described
as one element of memory that holds zeros and that nobody looks at afterwards, so that loads from it give what
lies outside of a tensor everywhere else, and stores leave no trace.
"""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from tilelang.runtime.bind import ArgumentError
from tilelang.runtime.driver import Driver
from tilelang.runtime.plan import LaunchPlan, TensorMap
from tilelang.runtime.sizes import compile_size

_BYTES, _ALIGNMENT = 128, 64
# CUtensorMapDataType, from 0 up.
_NAMES = "uint8 uint16 uint32 int32 uint64 int64 float16 float32 float64 bfloat16"
_DTYPES = {name: k for k, name in enumerate(_NAMES.split())}
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # CUtensorMapSwizzle
_KEPT = 64
_STRIDE = 16  # bytes: the least that the driver takes for a stride, and more than an element


class TensorMaps:
    """The descriptors of one plan."""

    def __init__(self, plan: LaunchPlan, driver: Driver) -> None:
        self._driver = driver
        self._names = plan.arguments
        self._position = {name: k for k, name in enumerate(plan.arguments)}
        self._maps = [_Sized(m) for m in plan.descriptors]
        self._known: OrderedDict[Any, list[Any]] = OrderedDict()

    def addresses(self, words: Sequence[int], sizes: Sequence[int], values: Sequence[Any]) -> list[int]:
        """Where the encoded descriptors lie. `words`: the plan's arguments, tensors as addresses; `values`:
        the arguments themselves.

        Raises ArgumentError for a tensor that the hardware cannot describe.
        """
        key = (tuple(words), tuple(sizes))
        found = self._known.get(key)
        if found is None:
            known = dict(zip(self._names[len(self._names) - len(sizes) :], sizes, strict=True))
            scalars = dict(zip(self._names, words, strict=False))
            given = dict(zip(self._names, values, strict=False))
            found = [
                self._encode(m, scalars[m.plan.tensor], {**scalars, **known}, given[m.plan.tensor])
                for m in self._maps
            ]
            self._known[key] = found
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return [_aligned(buffer) for buffer, _ in found]

    def _encode(self, sized: _Sized, address: int, sizes: Mapping[str, int], tensor: Any) -> Any:
        """(The descriptor, memory that it needs for a tensor that has none.)"""
        one, rank = sized.plan, len(sized.plan.box)
        shape = [s.evaluate(sizes) for s in sized.shape]
        strides = [s.evaluate(sizes) for s in sized.strides]
        blank = None
        if has_no_elements(shape):
            blank = _zeros(tensor)
            shape, strides, address = [1] * rank, [_STRIDE] * len(strides), blank.data_ptr()
        buffer = ctypes.create_string_buffer(_BYTES + _ALIGNMENT)
        assert self._driver.encode_tensor_map is not None  # whoever makes kernels with descriptors has looked
        status = self._driver.encode_tensor_map(
            ctypes.c_void_p(_aligned(buffer)),
            _DTYPES[one.dtype],
            rank,
            ctypes.c_void_p(address),
            (ctypes.c_uint64 * rank)(*shape),
            (ctypes.c_uint64 * max(rank - 1, 1))(*strides),
            (ctypes.c_uint32 * rank)(*one.box),
            (ctypes.c_uint32 * rank)(*[1] * rank),
            0,  # no interleaving
            _SWIZZLES[one.swizzle],
            one.promotion,
            one.fill,
        )
        if status:
            raise ArgumentError(_refused(one, address, shape, strides, self._driver.describe(status)))
        return buffer, blank


def has_no_elements(shape: Sequence[int]) -> bool:
    """Whether a tensor of these extents is one that the driver does not describe and no copy can touch."""
    return any(extent == 0 for extent in shape)


def _zeros(tensor: Any) -> Any:
    """An element of zeros, of any dtype, on the device of `tensor`."""
    import torch

    return torch.zeros(_STRIDE, dtype=torch.uint8, device=getattr(tensor, "device", "cuda"))


class _Sized:
    """A descriptor with its sizes compiled."""

    def __init__(self, plan: TensorMap) -> None:
        self.plan = plan
        self.shape = tuple(compile_size(s) for s in plan.shape)
        self.strides = tuple(compile_size(s) for s in plan.strides)


def _aligned(buffer: Any) -> int:
    start = ctypes.addressof(buffer)
    return -(-start // _ALIGNMENT) * _ALIGNMENT


def _refused(one: TensorMap, address: int, shape: list[int], strides: list[int], why: str) -> str:
    uneven = next((s for s in strides if s % 16), None)
    if uneven is not None:
        return (
            f"{one.tensor} has rows {uneven} bytes apart, but this kernel copies it by TMA, which needs a "
            "multiple of 16: pad its last dimension, or use T.copy with disable_tma=True"
        )
    sizes = ", ".join(map(str, reversed(shape)))
    return f"{one.tensor} of shape ({sizes}) at {address:#x} cannot be copied by TMA: {why}"
