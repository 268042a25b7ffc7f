"""What each target can update indivisibly in memory: dtypes by kind of update, and how many at once."""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.arch.target import Target

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_32 = ("int32", "uint32")
_64 = ("int64", "uint64")
_NARROW = ("int8", "uint8", "int16", "uint16")

_GPU: Mapping[str, tuple[str, ...]] = {
    "add": (*_FLOATS, *_32, *_64),
    "max": (*_FLOATS, *_32, *_64),
    "min": (*_FLOATS, *_32, *_64),
    "or": (*_32, *_64),
    "load": (*_FLOATS, "int16", "uint16", *_32, *_64),
    "store": (*_FLOATS, "int16", "uint16", *_32, *_64),
}
# Metal Shading Language 6.15: 32-bit atomics; floats can be added.
_METAL: Mapping[str, tuple[str, ...]] = {
    "add": ("float32", *_32),
    "max": _32,
    "min": _32,
    "or": _32,
    "load": ("float32", *_32),
    "store": ("float32", *_32),
}
_CPU_BITS = (*_NARROW, *_32, *_64)

# PTX ISA 9.7.13.6 (red): vectors of floats in global memory, sm_90 and newer; pairs of halves everywhere.
_VECTOR_SM = 90


def atomic_dtypes(target: Target, kind: str) -> tuple[str, ...] | None:
    """The element dtypes that an update of `kind` (add, max, min, or, load, store) takes; None for all.

    A CPU runs the blocks of such a kernel one after the other, so any dtype will do; only bits need integers.
    """
    if target.kind == "cpu":
        return _CPU_BITS if kind == "or" else None
    return (_METAL if target.kind == "metal" else _GPU)[kind]


def atomic_orders(target: Target) -> tuple[str, ...] | None:
    """The memory orders that the target's atomics know; None for all."""
    return ("relaxed",) if target.kind == "metal" else None


def atomic_add_lanes(target: Target, dtype: str, scope: str) -> int:
    """How many neighbouring elements one instruction adds at most; 1 where it is one by one."""
    if target.kind != "cuda":
        return 1
    vector = target.sm >= _VECTOR_SM and scope == "global"
    if dtype in ("float16", "bfloat16"):
        return 8 if vector else 2
    return 4 if dtype == "float32" and vector else 1
