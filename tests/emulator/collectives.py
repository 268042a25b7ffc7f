"""Shuffles, votes and named barriers of lowered CUDA code: threads as numpy lanes, warps of 32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

WARP = 32


def shuffle(name: str, value: np.ndarray, by: np.ndarray, width: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The result in every thread. Raises ValueError where an active thread reads from one that is not."""
    number = np.arange(len(value))
    lane, inside = number % WARP, number % width
    if name == "shfl_sync":
        source = number - inside + by % width
    elif name == "shfl_xor":
        other = lane ^ by
        source = np.where(other < lane // width * width + width, number - lane + other, number)
    elif name == "shfl_up":
        source = np.where(inside >= by, number - by, number)
    else:
        source = np.where(inside + by < width, number + by, number)
    source = np.where(mask, source, number)
    if (source >= len(value)).any() or not mask[source[mask]].all():
        raise ValueError("a shuffle reads a lane that does not take part")
    return value[source]


def vote(name: str, predicate: np.ndarray, lanes: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """any, all, ballot, activemask: `lanes` is the mask that each thread gives."""
    number = np.arange(len(mask))
    result = np.zeros(len(mask), np.uint64)
    for warp in range(-(-len(mask) // WARP)):
        mine = (number // WARP == warp) & mask
        taking = mine & ((lanes >> (number % WARP).astype(np.uint64)) & 1).astype(bool)
        if name == "any_sync":
            found: Any = predicate[taking].any()
        elif name == "all_sync":
            found = predicate[taking].all()
        else:
            bits = number[taking & predicate] % WARP
            found = int(sum(1 << int(b) for b in bits))
        result[mine] = found
    return result if name in ("ballot_sync", "ballot", "activemask") else result.astype(np.int32)


def match(name: str, value: np.ndarray, mask: np.ndarray) -> np.ndarray:
    number = np.arange(len(mask))
    result = np.zeros(len(mask), np.uint32)
    for t in number[mask]:
        mine = (number // WARP == t // WARP) & mask
        same = mine & (value == value[t])
        if name == "match_any_sync" or same.sum() == mine.sum():
            result[t] = sum(1 << int(b) for b in number[same] % WARP)
    return result


_STEPS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(dtype=x.dtype),
    "max": np.fmax.reduce,
    "min": np.fmin.reduce,
    "bitand": np.bitwise_and.reduce,
    "bitor": np.bitwise_or.reduce,
}

_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "sum": np.add,
    "max": np.fmax,
    "min": np.fmin,
    "bitand": np.bitwise_and,
    "bitor": np.bitwise_or,
}


def reduce(name: str, value: np.ndarray) -> np.ndarray:
    step = _STEPS[name.removeprefix("warp_reduce_")]
    result = value.copy()
    for start in range(0, len(value), WARP):
        result[start : start + WARP] = step(value[start : start + WARP])
    return result


def reduce_part(
    name: str, value: np.ndarray, lane: np.ndarray, count: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Every step as the helper takes it: what a lane beyond the `count` first ones would give is not used.

    Raises ValueError where a lane that is used is not there.
    """
    step = _TWO[name.removeprefix("part_warp_reduce_")]
    number = np.arange(len(value))
    if (lane[mask] != number[mask] % WARP).any() or (number - lane + count > len(value))[mask].any():
        raise ValueError("a reduction counts lanes that are not there")
    result = value.copy()
    distance = WARP // 2
    while distance:
        above = np.minimum(number + distance, len(value) - 1)
        result = np.where(lane + distance < count, step(result, result[above]), result)
        distance //= 2
    return result[number - lane]
