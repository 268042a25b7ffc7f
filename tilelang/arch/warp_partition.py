"""How the warps of a block share out a gemm tile: a grid of warps, chosen by the policy the author gave."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WarpPartition:
    """`m` warps along M, `n` along N."""

    m: int
    n: int

    def __str__(self) -> str:
        return f"{self.m}×{self.n}"


def warp_partitions(m: int, n: int, warps: int, step_m: int, step_n: int) -> list[WarpPartition]:
    """All grids of `warps` warps that cut an m × n tile into whole multiples of the instruction's tile."""
    return [
        WarpPartition(a, warps // a)
        for a in range(1, warps + 1)
        if warps % a == 0 and m % (step_m * a) == 0 and n % (step_n * (warps // a)) == 0
    ]


def warp_partition(policy: str, m: int, n: int, warps: int, step_m: int, step_n: int) -> WarpPartition | None:
    """The grid for one policy, None if no grid is legal.

    FullRow takes the most warps along M, FullCol the most along N, Square the grid whose parts have the ratio
    of instruction counts nearest to M / N; the first wins a tie.
    """
    legal = warp_partitions(m, n, warps, step_m, step_n)
    if not legal:
        return None
    if policy == "FullRow":
        return legal[-1]
    if policy == "FullCol":
        return legal[0]
    return min(legal, key=lambda p: abs((m / (step_m * p.m)) / (n / (step_n * p.n)) - m / n))


def legal_threads(m: int, n: int, warp_size: int, step_m: int, step_n: int, limit: int = 1024) -> list[int]:
    """Thread counts of a block for which an m × n tile has a legal grid, ascending."""
    return [
        warps * warp_size
        for warps in range(1, limit // warp_size + 1)
        if warp_partitions(m, n, warps, step_m, step_n)
    ]
