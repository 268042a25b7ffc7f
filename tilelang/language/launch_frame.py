"""The launch around a statement as an object: its grid, its threads, its clusters.

The class is kernel code itself: its methods are interpreted where a kernel calls them.
"""

from __future__ import annotations

from typing import Any

from tilelang.language.functions import meta_class
from tilelang.language.launch import get_thread_binding
from tilelang.language.threads import (
    get_block_binding,
    get_block_bindings,
    get_block_extent,
    get_block_extents,
    get_cluster_dims,
    get_cluster_extent,
    get_cluster_extents,
    get_cluster_id,
    get_cluster_ids,
    get_cluster_size,
    get_thread_bindings,
    get_thread_extent,
    get_thread_extents,
)


@meta_class
class KernelLaunchFrame:
    """`KernelLaunchFrame.Current()` is the launch around the calling code, for macros that adapt to it.

    Numbers and variables are those of `T.get_thread_extents()` and its kin, along x, y and z.
    """

    def __init__(self) -> None:
        """It holds nothing: what it says is asked where it is said."""

    @staticmethod
    def Current() -> KernelLaunchFrame:
        """The launch around this place."""
        return KernelLaunchFrame()

    @property
    def blocks(self) -> Any:
        """The numbers of the block, x first."""
        return get_block_bindings()

    @property
    def threads(self) -> Any:
        """The numbers of the thread in its block."""
        return get_thread_bindings()

    @property
    def num_threads(self) -> Any:
        """How many threads a block has."""
        x, y, z = get_thread_extents()
        return x * y * z

    def get_num_threads(self) -> Any:
        """How many threads a block has."""
        x, y, z = get_thread_extents()
        return x * y * z

    def get_thread_extent(self, dim: int) -> Any:
        """Threads of a block along `dim`."""
        return get_thread_extent(dim)

    def get_thread_extents(self) -> Any:
        """Threads of a block along x, y and z."""
        return get_thread_extents()

    def get_thread_binding(self, dim: int = 0) -> Any:
        """The number of the thread along `dim`."""
        return get_thread_binding(dim)

    def get_thread_bindings(self) -> Any:
        """The number of the thread along x, y and z."""
        return get_thread_bindings()

    def get_block_extent(self, dim: int) -> Any:
        """Blocks of the grid along `dim`."""
        return get_block_extent(dim)

    def get_block_extents(self) -> Any:
        """Blocks of the grid along x, y and z."""
        return get_block_extents()

    def get_block_binding(self, dim: int = 0) -> Any:
        """The number of the block along `dim`."""
        return get_block_binding(dim)

    def get_block_bindings(self) -> Any:
        """The number of the block along every dimension of the grid."""
        return get_block_bindings()

    def get_cluster_dims(self) -> Any:
        """Blocks of a cluster along x, y and z."""
        return get_cluster_dims()

    def get_cluster_size(self) -> Any:
        """How many blocks a cluster has."""
        return get_cluster_size()

    def get_cluster_id(self, dim: int = 0) -> Any:
        """The number of the cluster along `dim`."""
        return get_cluster_id(dim)

    def get_cluster_ids(self) -> Any:
        """The number of the cluster along every dimension of the grid."""
        return get_cluster_ids()

    def get_cluster_extent(self, dim: int = 0) -> Any:
        """Clusters of the grid along `dim`."""
        return get_cluster_extent(dim)

    def get_cluster_extents(self) -> Any:
        """Clusters of the grid along x, y and z."""
        return get_cluster_extents()
