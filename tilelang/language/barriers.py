"""Barriers in shared memory and other marks of asynchronous work on NVIDIA GPUs (PTX ISA, mbarrier)."""

from __future__ import annotations

from typing import Any, Literal

from tilelang.language.values import OutsideKernelError, Scalar, Tile


def alloc_barrier(arrive_count: int | list[int]) -> Tile:
    """Barriers in shared memory (mbarriers), ready to use: one for each count of arrivals; from sm_90 on.

    `full = T.alloc_barrier(128)`, `ready = T.alloc_barrier([1, 1])`, then `ready[0]` and `ready[1]`.
    """
    raise OutsideKernelError("alloc_barrier")


def mbarrier_arrive(mbarrier: Any, cta_id: Any = None) -> None:
    """Say that this thread has arrived. cta_id: at the barrier of that block of the cluster, by its rank."""
    raise OutsideKernelError("mbarrier_arrive")


def mbarrier_wait_parity(mbarrier: Any, parity: Any) -> None:
    """Wait until the phase of that parity, 0 for the first one, is complete."""
    raise OutsideKernelError("mbarrier_wait_parity")


def mbarrier_expect_tx(mbarrier: Any, tx: Any) -> None:
    """The phase is complete only when `tx` more bytes have been written asynchronously."""
    raise OutsideKernelError("mbarrier_expect_tx")


def mbarrier_arrive_expect_tx(mbarrier: Any, tx: Any) -> None:
    """`T.mbarrier_expect_tx` and `T.mbarrier_arrive` in one."""
    raise OutsideKernelError("mbarrier_arrive_expect_tx")


def barrier_arrive(mbarrier: Any) -> None:
    """The same as `T.mbarrier_arrive`."""
    raise OutsideKernelError("barrier_arrive")


def barrier_wait(mbarrier: Any, parity: Any) -> None:
    """The same as `T.mbarrier_wait_parity`."""
    raise OutsideKernelError("barrier_wait")


def alloc_cluster_barrier(arrive_count: int | list[int]) -> Tile:
    """`T.alloc_barrier`, for barriers at which other blocks of the cluster arrive too."""
    raise OutsideKernelError("alloc_cluster_barrier")


def tma_copy(
    src: Any,
    dst: Any,
    *,
    barrier: Any = None,
    cluster_mask: Any = None,
    leader_scope_threads: int | None = None,
    eviction_policy: Literal["evict_normal", "evict_first", "evict_last"] | None = None,
    annotations: Any = None,
) -> None:
    """Begin to copy a tile between global and shared memory by TMA and go on; from sm_90 on.

    One of the threads that come here issues it; with leader_scope_threads=32 one of each warp, for tiles and
    barriers that differ from warp to warp. Into shared memory: `barrier` expects the bytes, and the tile is
    there once all have arrived (`T.mbarrier_arrive`) and the phase is complete (`T.mbarrier_wait_parity`);
    with annotations={"emit_arrive": 1} the thread that issues it arrives. Out of it: the tile may be
    overwritten after `T.tma_store_wait()`. Extents are those of `T.copy`, dtypes are equal; what lies outside
    the tensor gives 0 and is not written. cluster_mask: a bit for each block of the cluster, by its rank: the
    lowest of them loads the tile for all of them, each of which expects the bytes at its own barrier, at the
    same place; a block that it does not name loads for itself.
    """
    raise OutsideKernelError("tma_copy")


def copy_cluster(
    src: Any,
    dst: Any,
    *,
    dst_block: Any = None,
    cluster_mask: int | None = None,
    remote_barrier: Any = None,
    eviction_policy: Literal["evict_normal", "evict_first", "evict_last"] | None = None,
    coalesced_width: int | None = None,
    annotations: Any = None,
    loop_layout: Any = None,
) -> None:
    """A copy for other blocks of the cluster; from sm_90 on.

    cluster_mask (a bit for each rank): as T.copy, into the shared memory of each of these blocks, of the part
    of the tensor that `src` is in the lowest of them; a block that it does not name copies for itself. Every
    block calls it.
    dst_block: from this block's shared memory (or fragment) to `dst` as the block of that rank has it. With
    remote_barrier (T.alloc_cluster_barrier) the copy goes on by itself and arrives once at that block's
    barrier, complete when it is; without, T.cluster_sync tells when it is.
    Extents are those of `T.copy`.
    """
    raise OutsideKernelError("copy_cluster")


def tma_store_arrive() -> None:
    """Close the group of this thread's copies out of shared memory; `T.tma_copy` has done so already."""
    raise OutsideKernelError("tma_store_arrive")


def tma_store_wait(count: int = 0, read: bool = True) -> None:
    """Wait until at most `count` groups of this thread's copies out of shared memory are on their way.

    read: until their tiles may be overwritten; False: until the tensor is written.
    """
    raise OutsideKernelError("tma_store_wait")


def cp_async_barrier_noinc(barrier: Any) -> None:
    """This thread arrives at `barrier` when the cp.async copies that it has begun so far are complete.

    It counts as one of the arrivals that the barrier was made for. PTX ISA 9.7.13.15,
    cp.async.mbarrier.arrive.noinc.
    """
    raise OutsideKernelError("cp_async_barrier_noinc")


def fence_proxy_async() -> None:
    """Make this thread's writes to shared memory visible to asynchronous copies and wgmma; from sm_90 on."""
    raise OutsideKernelError("fence_proxy_async")


def ptx_commit_group() -> None:
    """Close the group of the asynchronous copies that this thread has begun; from sm_80 on."""
    raise OutsideKernelError("ptx_commit_group")


def ptx_wait_group(num: int) -> None:
    """Wait until at most the `num` newest groups of asynchronous copies are still on their way."""
    raise OutsideKernelError("ptx_wait_group")


def async_copy(
    src: Any,
    dst: Any,
    *,
    coalesced_width: int | None = None,
    annotations: Any = None,
    loop_layout: Any = None,
) -> None:
    """Begin to copy a tile from global to shared memory and go on (cp.async and commit); from sm_80 on.

    The data is there after `T.ptx_wait_group(n)` and a barrier. Extents are those of `T.copy`.
    """
    raise OutsideKernelError("async_copy")


def cluster_arrive() -> None:
    """Say that this thread has arrived at the barrier of its cluster; from sm_90 on."""
    raise OutsideKernelError("cluster_arrive")


def cluster_arrive_relaxed() -> None:
    """`T.cluster_arrive` that orders no memory: what this thread wrote before need not be seen."""
    raise OutsideKernelError("cluster_arrive_relaxed")


def cluster_wait() -> None:
    """Wait until all threads of the cluster have arrived."""
    raise OutsideKernelError("cluster_wait")


def cluster_sync() -> None:
    """`T.cluster_arrive` and `T.cluster_wait`."""
    raise OutsideKernelError("cluster_sync")


def block_rank_in_cluster() -> Scalar:
    """The number of the block in its cluster (int32)."""
    raise OutsideKernelError("block_rank_in_cluster")


def create_barriers(barrier_count: int) -> None:
    """Barriers in shared memory that are named by numbers from 0 on, as TVM's script has them; from sm_90 on.

    `T.ptx_init_barrier_thread_count` gives each its count, in one thread, before T.sync_threads;
    T.alloc_barrier does all of that.
    """
    raise OutsideKernelError("create_barriers")


def ptx_init_barrier_thread_count(barrier_id: Any, thread_count: Any) -> None:
    """Make a barrier ready for so many arrivals; by one thread."""
    raise OutsideKernelError("ptx_init_barrier_thread_count")


def ptx_arrive_barrier(barrier_id: Any) -> None:
    """`T.mbarrier_arrive`, of a barrier or its number."""
    raise OutsideKernelError("ptx_arrive_barrier")


def ptx_arrive_barrier_expect_tx(barrier_id: Any, byte_count: Any) -> None:
    """`T.mbarrier_arrive_expect_tx`, of a barrier or its number."""
    raise OutsideKernelError("ptx_arrive_barrier_expect_tx")


def ptx_cp_async_barrier(barrier_id: Any) -> None:
    """`T.cp_async_barrier_noinc`, of a barrier or its number."""
    raise OutsideKernelError("ptx_cp_async_barrier")


def ptx_wait_barrier(barrier_id: Any) -> None:
    """Wait until the first phase of a barrier, or of one by its number, is complete."""
    raise OutsideKernelError("ptx_wait_barrier")


def ptx_arrive_cluster_barrier(mbarrier: Any, cta_id: Any) -> None:
    """`T.mbarrier_arrive(mbarrier, cta_id)`."""
    raise OutsideKernelError("ptx_arrive_cluster_barrier")


def ptx_fence_barrier_init() -> None:
    """Let other blocks of the cluster see that barriers are ready; T.alloc_cluster_barrier does so."""
    raise OutsideKernelError("ptx_fence_barrier_init")


def pdl_trigger() -> None:
    """Let the next kernel of the stream begin, if it is launched that way; from sm_90 on."""
    raise OutsideKernelError("pdl_trigger")


def pdl_sync() -> None:
    """Wait until the kernel before this one in the stream is done, if it was launched that way."""
    raise OutsideKernelError("pdl_sync")


def set_max_nreg(reg_count: int, is_inc: bool) -> None:
    """Give this warp group `reg_count` registers per thread, 24 to 256 in steps of 8; sm_90."""
    raise OutsideKernelError("set_max_nreg")


def inc_max_nreg(reg_count: int) -> None:
    """Take registers: `T.set_max_nreg(reg_count, True)`."""
    raise OutsideKernelError("inc_max_nreg")


def dec_max_nreg(reg_count: int) -> None:
    """Give registers back: `T.set_max_nreg(reg_count, False)`."""
    raise OutsideKernelError("dec_max_nreg")


def no_set_max_nreg() -> None:
    """Leave the registers of warp groups as they are, which this compiler always does."""
    raise OutsideKernelError("no_set_max_nreg")


def disable_warp_group_reg_alloc() -> None:
    """The same as `T.no_set_max_nreg`."""
    raise OutsideKernelError("disable_warp_group_reg_alloc")


def annotate_producer_reg_dealloc(reg_count: int = 24) -> None:
    """Registers of the warp group that copies; without effect: this compiler specialises none."""
    raise OutsideKernelError("annotate_producer_reg_dealloc")


def annotate_consumer_reg_alloc(reg_count: int = 240) -> None:
    """Registers of the warp groups that compute; without effect here."""
    raise OutsideKernelError("annotate_consumer_reg_alloc")


def warpgroup_arrive() -> None:
    """Accumulators are ready for the next product of the warp group; T.wgmma_gemm says so by itself."""
    raise OutsideKernelError("warpgroup_arrive")


def warpgroup_commit_batch() -> None:
    """The products so far are one group to wait for; each T.wgmma_gemm is one by itself."""
    raise OutsideKernelError("warpgroup_commit_batch")


def warpgroup_wait(num_mma: int) -> None:
    """Wait until at most `num_mma` groups of products are on their way; another name of T.wait_wgmma."""
    raise OutsideKernelError("warpgroup_wait")


def warpgroup_fence_operand(
    buffer_or_ptr: Any, offset: Any = 0, num_regs: Any = None, dtype: Any = None
) -> None:
    """Keep the host compiler from moving accumulators past products; this compiler's products do so."""
    raise OutsideKernelError("warpgroup_fence_operand")
