"""What threads of a warp or block tell each other: shuffles, votes, matches, warp reductions.

All threads run in step, one lane of an array each, so that a result is computed from all operands at once.
Warps have 32 lanes. CUDA C++ Programming Guide, "Warp Shuffle Functions" and those after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilelang.ir import thread_ops
from tilelang.reference.errors import ReferenceFailure

WARP = 32
_UNDEFINED = 0x55  # bytes of integers that no lane gave

_REDUCTIONS: Mapping[str, Callable[[Any], Any]] = {
    "sum": np.sum,
    "max": np.fmax.reduce,
    "min": np.fmin.reduce,
    "bitand": np.bitwise_and.reduce,
    "bitor": np.bitwise_or.reduce,
}


def collective(name: str, args: Sequence[np.ndarray], active: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """The result of `name` (of `thread_ops.COLLECTIVES`) in every thread.

    args: the operands, one entry per thread. active: the threads that are there. dtype: of the result,
    float64 for floats. Raises ReferenceFailure for a warp reduction that only some lanes of a warp reach.
    """
    short = name.removeprefix("tl.")
    if name in thread_ops.SHUFFLES:
        value, by, width = args[:3]
        return _shuffle(short, value, by.astype(np.int64), width.astype(np.int64), active)
    if name in thread_ops.WARP_REDUCTIONS:
        return _reduced(short, args[0], active, dtype)
    if name in thread_ops.BLOCK_VOTES:
        return np.full(active.shape, _block_vote(short, args[0][active] != 0), dtype)
    if name in thread_ops.MATCHES:
        return _matches(short, args[0], active, dtype)
    return _votes(short, args, active, dtype)


def _shuffle(
    name: str, value: np.ndarray, by: np.ndarray, width: np.ndarray, active: np.ndarray
) -> np.ndarray:
    """Segments of `width` lanes; the own value beyond them. What comes from a lane that is not there is
    undefined.
    """
    thread = np.arange(active.size)
    lane, inside = thread % WARP, thread % width
    match name:
        case "shfl_sync":
            source = thread - inside + by % width
        case "shfl_xor":
            other = lane ^ by
            source = np.where(other < lane // width * width + width, thread - lane + other, thread)
        case "shfl_up":
            source = np.where(inside >= by, thread - by, thread)
        case _:
            source = np.where(inside + by < width, thread + by, thread)
    there = (source >= 0) & (source < active.size)
    source = np.where(there, source, 0)
    there &= active[source]
    return np.where(there, value[source], _undefined(value.dtype))


def _undefined(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "f":
        return np.asarray(np.nan, dtype)
    return np.full(dtype.itemsize, _UNDEFINED, np.uint8).view(dtype)[0] if dtype.kind != "b" else True


def _warps(active: np.ndarray) -> list[np.ndarray]:
    """The numbers of the threads of each warp, as far as they are there."""
    thread = np.arange(active.size)
    warps = [thread[start : start + WARP] for start in range(0, active.size, WARP)]
    return [w[active[w]] for w in warps]


def _reduced(name: str, value: np.ndarray, active: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    found = np.zeros(active.shape, dtype)
    reduce = _REDUCTIONS[name.removeprefix("warp_reduce_")]
    for number, warp in enumerate(_warps(active)):
        whole = min(WARP, active.size - number * WARP)
        if warp.size not in (0, whole):
            raise ReferenceFailure(
                f"T.{name} needs all {whole} lanes of a warp, but {warp.size} of warp {number} reach it"
            )
        if warp.size:
            with np.errstate(all="ignore"):
                found[warp] = np.asarray(reduce(value[warp])).astype(dtype)
    return found


def _block_vote(name: str, holds: np.ndarray) -> int:
    if name.endswith("_count"):
        return int(holds.sum())
    return int(holds.all() if name.endswith("_and") else holds.any())


def _votes(name: str, args: Sequence[np.ndarray], active: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """any, all, ballot, activemask: over the lanes that are there and stand in the mask of each thread."""
    kind = name.removesuffix("_sync")
    holds = args[0] != 0 if args else np.ones(active.shape, bool)
    found = np.zeros(active.shape, dtype)
    for warp in _warps(active):
        for thread in warp:
            lanes = warp
            if len(args) > 1:
                lanes = warp[(int(args[1][thread]) >> (warp % WARP)) & 1 == 1]
            if kind in ("any", "all"):
                found[thread] = holds[lanes].any() if kind == "any" else holds[lanes].all()
            else:
                found[thread] = _bits(lanes[holds[lanes]])
    return found


def _matches(name: str, value: np.ndarray, active: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    found = np.zeros(active.shape, dtype)
    for warp in _warps(active):
        for thread in warp:
            same = warp[value[warp] == value[thread]]
            if name == "match_any_sync" or same.size == warp.size:
                found[thread] = _bits(same)
    return found


def _bits(threads: np.ndarray) -> int:
    return sum(1 << int(t) % WARP for t in threads)
