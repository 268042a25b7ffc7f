"""Persistent kernels: loops and schedulers by which a fixed number of blocks works through all tiles.

The classes are kernel code themselves: their methods are interpreted where a kernel calls them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilelang.language.allocate import alloc_var
from tilelang.language.functions import meta_class
from tilelang.language.math import max as larger
from tilelang.language.math import min as smaller
from tilelang.language.values import OutsideKernelError, Scalar


def Persistent(
    domain: Any,
    wave_size: Any,
    index: Any,
    group_size: Any = 8,
    num_stages: int = 0,
    *,
    annotations: Any = None,
) -> Iterator[tuple[Scalar, ...]]:
    """The tiles of `domain` that one block works on: `for m, n in T.Persistent([tiles_m, tiles_n], 132, bx):`

    domain: extents of the tiles, one or more. wave_size: number of blocks that share them; `index`: which
    of them this block is. group_size: neighbouring tiles of the last dimension that are done before the
    others advance, so that they share the L2 cache. num_stages: as in `T.Pipelined`.
    """
    raise OutsideKernelError("Persistent")


@meta_class
class BaseTileScheduler:
    """Which tile a block works on, step by step: `s.init(bx)`, `while s.valid():`, `s.next_tile()`.

    A scheduler of your own gives `num_workers`, `valid()` and `update_current_idx(linear_idx)`, which sets
    `self._m_idx` and `self._n_idx`. Everything here is int32.
    """

    num_workers: Any = 1

    def __init__(self, stateful: bool = True, name: str | None = None) -> None:
        self._stateful = stateful
        if stateful:
            self._m_idx = alloc_var("int32")
            self._n_idx = alloc_var("int32")
            self._linear_idx = alloc_var("int32")
            self._current_iter = alloc_var("int32")

    @property
    def m_idx(self) -> Any:
        """The row of the current tile."""
        return self._m_idx

    @property
    def n_idx(self) -> Any:
        """The column of the current tile."""
        return self._n_idx

    @property
    def linear_idx(self) -> Any:
        """The number of the current tile."""
        return self._linear_idx

    @property
    def current_iter(self) -> Any:
        """How many tiles this block has done."""
        return self._current_iter

    def init(self, worker_id: Any) -> None:
        """Begin with the first tile of the block `worker_id`."""
        self._current_iter = 0
        self._linear_idx = worker_id
        self.update_current_idx(self._linear_idx)

    def next_tile(self) -> None:
        """Go on to the block's next tile."""
        self._current_iter = self._current_iter + 1
        self._linear_idx = self._linear_idx + self.num_workers
        self.update_current_idx(self._linear_idx)

    def update_current_idx(self, linear_idx: Any) -> None:
        """Work out row and column of a tile from its number."""
        raise NotImplementedError("a tile scheduler defines update_current_idx(self, linear_idx)")

    def valid(self) -> Any:
        """Whether there is a current tile, that is, whether the block is not done."""
        raise NotImplementedError("a tile scheduler defines valid(self)")


@meta_class
class PersistentTileScheduler(BaseTileScheduler):
    """All tiles of a matrix, shared out in turn to `num_workers` blocks.

    num_m_tiles, num_n_tiles: rows and columns of tiles. swizzle_size: width of a panel of tiles that is done
    before the next one, for the L2 cache. column_major: panels of columns, else of rows. cluster_size: blocks
    that work on one tile together, along rows. stateful: False for `coord` alone.
    """

    def __init__(
        self,
        num_m_tiles: Any,
        num_n_tiles: Any,
        num_workers: Any = None,
        swizzle_size: int = 1,
        column_major: bool = True,
        cluster_size: int = 1,
        stateful: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(stateful, name)
        if num_workers is None:
            raise ValueError("num_workers, the number of blocks of the grid, must be given")
        self.num_workers = num_workers
        self.swizzle_size = swizzle_size
        self.cluster_size = cluster_size
        self._column_major = column_major
        rows = num_m_tiles // cluster_size
        self._primary = rows if column_major else num_n_tiles
        self._secondary = num_n_tiles if column_major else rows
        self._total_tiles = self._primary * self._secondary

    def coord(self, tile_id: Any) -> Any:
        """Row and column of the tile with that number."""
        panel = tile_id // (self._primary * self.swizzle_size)
        first = panel * self.swizzle_size
        inside = tile_id - panel * (self._primary * self.swizzle_size)
        width = larger(1, smaller(self.swizzle_size, self._secondary - first))
        along, across = inside // width, first + inside % width
        return (along, across) if self._column_major else (across, along)

    def update_current_idx(self, linear_idx: Any) -> None:
        row, column = self.coord(linear_idx)
        self._m_idx = row
        self._n_idx = column

    def valid(self) -> Any:
        return self._linear_idx < self._total_tiles
