"""Grids of warps for a gemm tile: legal, and as the policy asks."""

from __future__ import annotations

import pytest

from tilelang.arch.warp_partition import legal_threads, warp_partition, warp_partitions


@pytest.mark.parametrize(
    ("policy", "m", "n", "warps", "expected"),
    [
        ("Square", 128, 128, 4, (2, 2)),
        ("FullRow", 128, 128, 4, (4, 1)),
        ("FullCol", 128, 128, 4, (1, 4)),
        ("FullRow", 32, 128, 4, (2, 2)),  # 32 rows feed two warps of 16
        ("Square", 64, 64, 1, (1, 1)),
        ("Square", 16, 104, 12, None),
        ("Square", 128, 128, 3, None),
    ],
)
def test_policies(policy: str, m: int, n: int, warps: int, expected: tuple[int, int] | None):
    found = warp_partition(policy, m, n, warps, 16, 8)
    assert (None if found is None else (found.m, found.n)) == expected


def test_every_grid_cuts_the_tile_into_whole_instructions():
    for m in (16, 48, 64, 128):
        for n in (8, 24, 64, 256):
            for warps in range(1, 33):
                for grid in warp_partitions(m, n, warps, 16, 8):
                    assert grid.m * grid.n == warps
                    assert m % (16 * grid.m) == 0 and n % (8 * grid.n) == 0


def test_legal_thread_counts_are_those_with_a_grid():
    assert legal_threads(128, 128, 32, 16, 8) == [32, 64, 128, 256, 512, 1024]
    assert legal_threads(8, 64, 32, 16, 8) == []
