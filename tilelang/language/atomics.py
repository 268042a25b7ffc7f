"""Updates of memory that several threads may make at once: T.atomic_add and relatives."""

from __future__ import annotations

from typing import Any, Literal

from tilelang.language.values import OutsideKernelError, Scalar

Annotations = dict[str, Any] | None
MemoryOrder = Literal["relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"]


def atomic_add(
    dst: Any,
    value: Any,
    memory_order: MemoryOrder | None = None,
    return_prev: bool = False,
    use_tma: bool = False,
    annotations: Annotations = None,
) -> Any:
    """dst += value, indivisibly: `T.atomic_add(C[i, j], x)` for an element, `T.atomic_add(C[i, 0], acc)` for
    a tile.

    dst: an element, a slice or a start in global or shared memory; the extents of tiles follow the rules of
    `T.copy`. value: a number, which a tile takes in each of its elements, or a tile that is added element by
    element, converted to dst's dtype.
    memory_order: "relaxed" unless given. return_prev: the call is the element's old value (elements only).
    use_tma: a hint. Outside `T.Parallel` every thread of the block adds.
    """
    raise OutsideKernelError("atomic_add")


def atomic_max(
    dst: Any,
    value: Any,
    memory_order: MemoryOrder | None = None,
    return_prev: bool = False,
    annotations: Annotations = None,
) -> Any:
    """dst = max(dst, value), indivisibly; operands as in `T.atomic_add`. A NaN loses against a number."""
    raise OutsideKernelError("atomic_max")


def atomic_min(
    dst: Any,
    value: Any,
    memory_order: MemoryOrder | None = None,
    return_prev: bool = False,
    annotations: Annotations = None,
) -> Any:
    """dst = min(dst, value), indivisibly; operands as in `T.atomic_add`. A NaN loses against a number."""
    raise OutsideKernelError("atomic_min")


def atomic_or(dst: Any, value: Any, memory_order: MemoryOrder | None = None) -> None:
    """dst |= value on one integer element, indivisibly."""
    raise OutsideKernelError("atomic_or")


def atomic_addx2(dst: Any, value: Any, return_prev: bool = False) -> Any:
    """Add two neighbouring elements at once: dst[j] += value[j] and dst[j + 1] += value[j + 1].

    dst, value: the first elements, `C[i, j]` and `x[i, j]`. One instruction where address and target allow
    it, each element indivisible in any case. return_prev: the call is the vector of what the elements held,
    as in `old[j : j + 2] = T.atomic_addx2(C[j], x[j], return_prev=True)`; each is then updated on its own.
    """
    raise OutsideKernelError("atomic_addx2")


def atomic_addx4(dst: Any, value: Any, return_prev: bool = False) -> Any:
    """Add four neighbouring elements at once; operands as in `T.atomic_addx2`."""
    raise OutsideKernelError("atomic_addx4")


def atomic_load(
    src: Any, memory_order: Literal["relaxed", "consume", "acquire", "seq_cst"] = "seq_cst"
) -> Scalar:
    """The value of one element in memory, read indivisibly; what happened before a matching store is seen."""
    raise OutsideKernelError("atomic_load")


def atomic_store(
    dst: Any, src: Any, memory_order: Literal["relaxed", "release", "seq_cst"] = "seq_cst"
) -> None:
    """Write one element in memory indivisibly; what was written before is seen after a matching load."""
    raise OutsideKernelError("atomic_store")
