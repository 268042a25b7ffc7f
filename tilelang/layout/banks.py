"""Bank conflicts of shared memory: how many turns one access of a warp takes, and the layout with fewest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilelang.layout.shared import SharedLayout, spreads

BANKS = 32
BANK_BYTES = 4


@dataclass(frozen=True)
class TileAccess:
    """What the threads of a warp access in a tile at once: for each dimension the index of each thread's
    first element, of `width` neighbours. `times`: how often a kernel does it.
    """

    indices: tuple[Any, ...]
    width: int
    times: int


def conflict_degree(addresses: Iterable[int], access_bytes: int) -> int:
    """Turns that one instruction needs when its threads access `access_bytes` at the byte `addresses`; 1 is
    ideal.

    Accesses of 8 and 16 bytes are served half and a quarter of a warp at a time (as for ldmatrix, eight rows
    of 16 bytes per turn), so the addresses are taken in groups that move 128 bytes. Threads that read the
    same word share it.
    """
    starts = list(addresses)
    group = BANKS * BANK_BYTES // max(access_bytes, BANK_BYTES)
    worst = 1
    for first in range(0, len(starts), group):
        words: dict[int, set[int]] = {}
        for start in starts[first : first + group]:
            for byte in range(start, start + access_bytes, BANK_BYTES):
                word = byte // BANK_BYTES
                words.setdefault(word % BANKS, set()).add(word)
        worst = max(worst, max(len(w) for w in words.values()))
    return worst


def fewest_turns(layout: SharedLayout, accesses: Sequence[TileAccess]) -> SharedLayout:
    """The layout of a row-major tile in which its accesses take the fewest turns: `layout`, unless exchanging
    chunks within rows at least halves them, for it costs arithmetic.
    """
    best, least = layout, _turns(layout, accesses)
    if least < 2 * sum(a.times for a in accesses):
        return layout
    limit = least // 2
    for spread in spreads(layout.shape, layout.bits):
        turns = _turns(spread, accesses)
        if turns < least and turns <= limit:
            best, least = spread, turns
    return best


def _turns(layout: SharedLayout, accesses: Sequence[TileAccess]) -> int:
    return sum(access.times * _degree(layout, access) for access in accesses)


def _degree(layout: SharedLayout, access: TileAccess) -> int:
    places = np.asarray(layout.offset(access.indices)) * layout.bits // 8
    return conflict_degree(np.atleast_1d(places).tolist(), max(1, access.width * layout.bits // 8))
