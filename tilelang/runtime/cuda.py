"""Launches CUDA kernels on torch tensors: loads cubins, packs arguments, uses torch's current stream."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

from tilelang.runtime.artifact import Artifact
from tilelang.runtime.bind import ArgumentError, BoundCall, refuse_without_memory
from tilelang.runtime.driver import CudaError, driver
from tilelang.runtime.plan import ScalarParam, TensorParam
from tilelang.runtime.tensor_maps import TensorMaps
from tilelang.runtime.tensors import address

_STATIC_SHARED = 48 * 1024  # bytes a kernel may use without asking
_SCALARS = {
    "int8": ctypes.c_int8,
    "uint8": ctypes.c_uint8,
    "bool": ctypes.c_uint8,
    "int16": ctypes.c_int16,
    "uint16": ctypes.c_uint16,
    "int32": ctypes.c_int32,
    "uint32": ctypes.c_uint32,
    "int64": ctypes.c_int64,
    "uint64": ctypes.c_uint64,
    "float16": ctypes.c_uint16,
    "bfloat16": ctypes.c_uint16,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
}


def half_bits(value: float) -> int:
    """A number as the 16 bits of the nearest float16; what is too large becomes an infinity."""
    try:
        return struct.unpack("<H", struct.pack("<e", value))[0]
    except OverflowError:
        return 0x7C00 if value > 0 else 0xFC00


def bfloat_bits(value: float) -> int:
    """A number as the 16 bits of the nearest bfloat16, ties to even: the upper half of a float32."""
    if value != value:
        return 0x7FC0
    try:
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        return 0x7F80 if value > 0 else 0xFF80
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


# What a scalar becomes before it is stored; the others are stored as they are.
_ENCODED: dict[str, Callable[[Any], Any]] = {"float16": half_bits, "bfloat16": bfloat_bits}


class CudaFunction:
    """The entry point of a CUDA kernel on the devices it was launched on."""

    def __init__(self, artifact: Artifact) -> None:
        if artifact.binary_format != "cubin":
            raise CudaError(f"{artifact.name} was saved without a binary for {artifact.target}")
        plan = artifact.plan
        self._name = plan.name
        self._driver = driver()
        self._library, self._kernel = self._driver.load(artifact.binary, plan.entry)
        self._threads = (*plan.threads, 1, 1)[:3]
        self._shared = plan.shared_bytes
        self._ready: set[int] = set()
        self._launch = self._driver.launch_cooperative if plan.cooperative else self._driver.launch_kernel
        maps = TensorMaps(plan, self._driver) if plan.descriptors else None
        if maps is not None and self._driver.encode_tensor_map is None:
            raise CudaError(f"{plan.name} copies by TMA, which needs a driver for CUDA 12 or newer")
        self._pack = _packer(plan.name, plan.params, len(plan.arguments) - len(plan.params), maps)
        self._stream = _current_stream()

    def launch(self, values: Sequence[Any], sizes: Sequence[int], bound: BoundCall) -> None:
        """Queue the kernel on torch's current stream of the tensors' device.

        values: tensors and scalars in the plan's order. Raises ArgumentError for a tensor that begins where
        the kernel's wide moves cannot, CudaError in words for what the driver refuses; errors of the running
        kernel appear at the next synchronisation.
        """
        number = bound.device_index
        if number not in self._ready:
            self._prepare(number)
        holders, pointers = self._pack(values, sizes)
        x, y, z = bound.launch_grid
        status = self._call(x, y, z, number, pointers)
        if self._driver.lacks_context(status) or (status and _current_device() != number):
            self._driver.make_current(number)
            status = self._call(x, y, z, number, pointers)
        del holders  # the arguments live until the driver has copied them
        if status:
            raise CudaError(
                f"launching {self._name} with grid ({x}, {y}, {z}), {self._threads} threads and "
                f"{self._shared} bytes of shared memory failed: {self._driver.describe(status)}"
            )

    def _call(self, x: int, y: int, z: int, device: int, pointers: Any) -> int:
        tx, ty, tz = self._threads
        stream = self._stream(device)
        return self._launch(self._kernel, x, y, z, tx, ty, tz, self._shared, stream, pointers, None)

    def _prepare(self, device: int) -> None:
        if self._shared > _STATIC_SHARED:
            self._driver.allow_shared(self._kernel, device, self._shared, self._name)
        if _current_device() != device:
            self._driver.make_current(device)
        self._ready.add(device)


def _packer(
    kernel: str, params: Sequence[Any], symbols: int, maps: TensorMaps | None = None
) -> Callable[[Sequence[Any], Sequence[int]], tuple[Any, Any]]:
    """Packs arguments for cuLaunchKernel: one 8-byte slot each, and the array of their addresses; descriptors
    follow.
    """
    count = len(params) + symbols
    slots_type = ctypes.c_uint64 * count
    aligned = [(i, p) for i, p in enumerate(params) if isinstance(p, TensorParam) and p.alignment > 1]
    scalars = [
        (i, _SCALARS[p.dtype], _ENCODED.get(p.dtype))
        for i, p in enumerate(params)
        if isinstance(p, ScalarParam)
    ]
    is_tensor = [not isinstance(p, ScalarParam) for p in params]
    offsets = [8 * i for i in range(count)]
    mask = 2**64 - 1

    def pack(values: Sequence[Any], sizes: Sequence[int]) -> tuple[Any, Any]:
        words = [address(v) if t else 0 for v, t in zip(values, is_tensor, strict=True)]
        if not all(w for w, t in zip(words, is_tensor, strict=True) if t):
            refuse_without_memory(kernel, params, values)
        for i, param in aligned:
            if words[i] % param.alignment:
                raise ArgumentError(_misaligned(param, words[i]))
        slots = slots_type(*words, *[s & mask for s in sizes])
        base = ctypes.addressof(slots)
        for i, kind, encode in scalars:
            kind.from_address(base + 8 * i).value = values[i] if encode is None else encode(values[i])
        addresses = [base + o for o in offsets]
        if maps is not None:
            addresses += maps.addresses([int(w) for w in slots], sizes, values)
        return slots, (ctypes.c_uint64 * len(addresses))(*addresses)

    return pack


def _misaligned(param: TensorParam, address: int) -> str:
    found = address & -address  # the largest power of two that divides it
    return (
        f"{param.name} begins at an address that is aligned to {found} bytes, but this kernel reads or "
        f"writes it {param.alignment} bytes at a time and needs {param.alignment}; a slice of a tensor "
        f"begins anywhere: pass {param.name}.clone(), which is aligned"
    )


def _current_stream() -> Callable[[int], int]:
    """How to ask torch for the raw stream of a device; the private call costs a tenth of the public one."""
    import torch

    quick = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return quick or (lambda device: torch.cuda.current_stream(device).cuda_stream)


def _current_device() -> int:
    import torch

    return torch.cuda.current_device()
