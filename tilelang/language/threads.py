"""Code that deals with threads by itself: their numbers, and how the lanes of a warp exchange values."""

from __future__ import annotations

from typing import Any

from tilelang.language.values import OutsideKernelError, Scalar

FULL_MASK = 0xFFFFFFFF  # all lanes of a warp of 32


def get_thread_bindings() -> tuple[Scalar, Scalar, Scalar]:
    """The numbers of the thread in its block along x, y and z; 0 along a dimension that `threads=` does not
    have.
    """
    raise OutsideKernelError("get_thread_bindings")


def get_thread_extent(dim: int = 0) -> int:
    """The number of threads of a block along `dim`, 1 where `threads=` has no such dimension."""
    raise OutsideKernelError("get_thread_extent")


def get_thread_extents() -> list[int]:
    """The numbers of threads of a block along x, y and z."""
    raise OutsideKernelError("get_thread_extents")


def get_block_binding(dim: int = 0) -> Scalar:
    """The number of the block along `dim` of the grid (0 is x)."""
    raise OutsideKernelError("get_block_binding")


def get_block_bindings() -> list[Scalar]:
    """The numbers of the block, one for each dimension of the grid."""
    raise OutsideKernelError("get_block_bindings")


def get_block_extent(dim: int = 0) -> Any:
    """The number of blocks along `dim`, 1 where the grid has no such dimension."""
    raise OutsideKernelError("get_block_extent")


def get_block_extents() -> list[Any]:
    """The numbers of blocks along x, y and z."""
    raise OutsideKernelError("get_block_extents")


def get_cluster_dims() -> list[int]:
    """The numbers of blocks of a cluster along x, y and z; ones where the launch has no clusters."""
    raise OutsideKernelError("get_cluster_dims")


def get_cluster_size() -> int:
    """The number of blocks of a cluster, 1 where the launch has no clusters."""
    raise OutsideKernelError("get_cluster_size")


def get_cluster_id(dim: int = 0) -> Scalar:
    """The number of the block's cluster along `dim` of the grid (0 is x)."""
    raise OutsideKernelError("get_cluster_id")


def get_cluster_ids() -> list[Scalar]:
    """The numbers of the block's cluster, one for each dimension of the grid."""
    raise OutsideKernelError("get_cluster_ids")


def get_cluster_extent(dim: int = 0) -> Any:
    """The number of clusters along `dim` of the grid."""
    raise OutsideKernelError("get_cluster_extent")


def get_cluster_extents() -> list[Any]:
    """The numbers of clusters along x, y and z."""
    raise OutsideKernelError("get_cluster_extents")


def get_lane_idx(warp_size: Any = None) -> Scalar:
    """The number of the thread in its warp. warp_size: 32 if not given (64 on AMD GPUs that have such
    wavefronts).
    """
    raise OutsideKernelError("get_lane_idx")


def get_warp_idx(warp_size: Any = None) -> Scalar:
    """The number of the thread's warp in its block."""
    raise OutsideKernelError("get_warp_idx")


def get_warp_idx_sync(warp_size: Any = None) -> Scalar:
    """The number of the thread's warp; all its lanes must be here together."""
    raise OutsideKernelError("get_warp_idx_sync")


def get_warp_group_idx(warp_size: Any = None, warps_per_group: Any = None) -> Scalar:
    """The number of the thread's warp group. warps_per_group: 4 if not given, as wgmma wants them."""
    raise OutsideKernelError("get_warp_group_idx")


def shuffle_elect(thread_extent: int) -> Scalar:
    """Whether this is the one thread that stands for its group of `thread_extent` threads; 0 means the whole
    block.
    """
    raise OutsideKernelError("shuffle_elect")


def shfl_sync(value: Any, srcLane: Any, width: Any = 32, mask: Any = FULL_MASK) -> Scalar:
    """The `value` of lane `srcLane` of the warp.

    width: lanes are numbered within segments of so many, a power of two. mask: the lanes that take part; all
    of them must get here. Everything that holds for `shfl_sync` holds for `shfl_xor`, `shfl_up` and
    `shfl_down` (CUDA C++ Programming Guide, warp shuffle functions).
    """
    raise OutsideKernelError("shfl_sync")


def shfl_xor(value: Any, delta: Any, width: Any = 32, mask: Any = FULL_MASK) -> Scalar:
    """The `value` of the lane whose number is this one's xor `delta`."""
    raise OutsideKernelError("shfl_xor")


def shfl_up(value: Any, delta: Any, width: Any = 32, mask: Any = FULL_MASK) -> Scalar:
    """The `value` of the lane `delta` below; the thread's own where there is none in its segment."""
    raise OutsideKernelError("shfl_up")


def shfl_down(value: Any, delta: Any, width: Any = 32, mask: Any = FULL_MASK) -> Scalar:
    """The `value` of the lane `delta` above; the thread's own where there is none in its segment."""
    raise OutsideKernelError("shfl_down")


def any_sync(predicate: Any, mask: Any = FULL_MASK) -> Scalar:
    """1 if `predicate` is not zero in any lane of `mask`, else 0 (int32)."""
    raise OutsideKernelError("any_sync")


def all_sync(predicate: Any, mask: Any = FULL_MASK) -> Scalar:
    """1 if `predicate` is not zero in all lanes of `mask`, else 0 (int32)."""
    raise OutsideKernelError("all_sync")


def ballot_sync(predicate: Any, mask: Any = FULL_MASK) -> Scalar:
    """One bit for each lane of `mask`: whether `predicate` is not zero there (uint64)."""
    raise OutsideKernelError("ballot_sync")


def ballot(predicate: Any) -> Scalar:
    """One bit for each lane of the warp: whether `predicate` is not zero there (uint64)."""
    raise OutsideKernelError("ballot")


def activemask() -> Scalar:
    """One bit for each lane of the warp that runs here together with this one (uint64)."""
    raise OutsideKernelError("activemask")


def match_any_sync(value: Any, mask: Any = FULL_MASK) -> Scalar:
    """One bit for each lane of `mask` that holds the same `value` (uint32). Not on AMD GPUs."""
    raise OutsideKernelError("match_any_sync")


def match_all_sync(value: Any, mask: Any = FULL_MASK) -> Scalar:
    """`mask` if all its lanes hold the same `value`, else 0 (uint32). Not on AMD GPUs."""
    raise OutsideKernelError("match_all_sync")


def warp_reduce_sum(value: Any) -> Scalar:
    """The sum of `value` over the lanes of the warp, the same in all of them.

    All lanes that the block has in the warp must get here; where it does not fill its last warp, only those
    lanes count.
    """
    raise OutsideKernelError("warp_reduce_sum")


def warp_reduce_max(value: Any) -> Scalar:
    """The largest `value` in the warp."""
    raise OutsideKernelError("warp_reduce_max")


def warp_reduce_min(value: Any) -> Scalar:
    """The smallest `value` in the warp."""
    raise OutsideKernelError("warp_reduce_min")


def warp_reduce_bitand(value: Any) -> Scalar:
    """The bitwise and of `value` over the lanes of the warp; integers only."""
    raise OutsideKernelError("warp_reduce_bitand")


def warp_reduce_bitor(value: Any) -> Scalar:
    """The bitwise or of `value` over the lanes of the warp; integers only."""
    raise OutsideKernelError("warp_reduce_bitor")
