"""Bulk copies by TMA through descriptors that the author makes; `T.tma_copy` makes its own.

The instructions are those of PTX ISA 9.7.9.25 (cp.async.bulk) and 9.7.9.27 (cp.async.bulk.tensor), the
descriptor is that of the driver's cuTensorMapEncodeTiled.
"""

from __future__ import annotations

from typing import Any

from tilelang.language.values import OutsideKernelError


def create_tma_descriptor(*args: Any) -> Any:
    """A descriptor of a tensor in global memory, encoded at each launch.

    args: the number of the data type (CUtensorMapDataType), the rank r (1 to 5), the tensor as `X.data`; r
    extents, innermost first; r distances in bytes, of which the first is not looked at; the r extents of the
    box that one copy moves; r steps, which must be 1; then interleaving (0), swizzle (0 none, 1 to 3 for 32,
    64 and 128 bytes), L2 promotion (0 to 3) and what is read outside (0 zeros, 1 NaN).
    """
    raise OutsideKernelError("create_tma_descriptor")


def tma_load(*args: Any) -> None:
    """Begin a bulk copy into shared memory; the thread that comes here issues it.

    args: a descriptor, the barrier that expects the bytes, the address in shared memory (`T.access_ptr`), the
    coordinates of the box, innermost first, and the eviction policy (0 normal, 1 first, 2 last). Or, for
    neighbouring bytes without a descriptor: the address in shared memory, that in global memory, the barrier
    and the number of bytes.
    """
    raise OutsideKernelError("tma_load")


def ptx_cp_async_bulk(
    dtype: Any,
    shared_ptr: Any,
    shared_offset: Any,
    global_ptr: Any,
    global_offset: Any,
    bytes: Any,
    barrier_id: Any,
) -> None:
    """Begin to copy neighbouring bytes from global to shared memory; `tile.data` and numbers of elements say
    where. barrier_id: a barrier, or the number of one of T.create_barriers.
    """
    raise OutsideKernelError("ptx_cp_async_bulk")
