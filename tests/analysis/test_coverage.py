"""What many single writes reach together."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from tilelang.analysis.coverage import _joined


def painted(pieces: list[tuple[int, int]], size: int = 64) -> list[int]:
    inside = np.zeros(size, bool)
    for first, count in pieces:
        inside[max(0, first) : max(0, first + count)] = True
    return np.flatnonzero(inside).tolist()


@pytest.mark.parametrize("seed", range(20))
def test_joined_intervals_are_the_same_coordinates(seed: int):
    chance = random.Random(seed)
    firsts = [chance.randrange(-5, 60) for _ in range(chance.randrange(30))]
    count = chance.randrange(6)
    joined = _joined(np.asarray(firsts, dtype=np.int64), count)
    assert painted(joined) == painted([(first, count) for first in firsts])
    assert all(a + n < b for (a, n), (b, _) in pairwise(joined))


def test_a_tile_written_element_by_element_is_one_interval():
    assert _joined(np.arange(4096)[::-1], 1) == [(0, 4096)]
