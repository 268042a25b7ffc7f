"""Bank conflicts of shared memory: how many turns one access of a warp takes."""

from __future__ import annotations

from collections.abc import Iterable

BANKS = 32
BANK_BYTES = 4


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
