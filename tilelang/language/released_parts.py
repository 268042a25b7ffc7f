"""The modules inside `tilelang.language` of release 0.1.15, and what kernels import from each.

Here the language is one module with all of its names, so `from tilelang.language.loop import Parallel` is
`T.Parallel`. Names that neither has are not listed: `released.py` knows those that are not supported.
"""

from __future__ import annotations

from collections.abc import Mapping

_BUILTIN = """
access_ptr activemask all_sync annotate_consumer_reg_alloc annotate_producer_reg_dealloc any_sync ballot
ballot_sync barrier_arrive barrier_wait cp_async_barrier_noinc create_tma_descriptor deallocate_tmem
dec_max_nreg disable_warp_group_reg_alloc fence_proxy_async get_lane_idx get_warp_group_idx get_warp_idx
get_warp_idx_sync inc_max_nreg increase_descriptor_offset initialize_tcgen05_descriptor
initialize_wgmma_descriptor ldg128 ldg256 ldg32 ldg64 lds128 lds32 lds64 match_all_sync match_any_sync
mbarrier_arrive mbarrier_arrive_expect_tx mbarrier_expect_tx mbarrier_wait_parity named_barrier_arrive
no_set_max_nreg ptx_arrive_cluster_barrier ptx_mma_sm70 set_max_nreg shfl_down shfl_sync shfl_up shfl_xor
shuffle_elect stg128 stg256 stg32 stg64 sts128 sts32 sts64 sync_grid sync_threads sync_warp syncthreads_and
syncthreads_count syncthreads_or tcgen05_after_thread_sync tcgen05_before_thread_sync tcgen05_cp_warpx4
tcgen05_mma_arrive tcgen05_sf_warp_transpose tma_load tma_load_2sm tma_store_arrive tma_store_wait
wait_wgmma warpgroup_arrive warpgroup_commit_batch warpgroup_fence_operand warpgroup_wait
"""
_KERNEL = """
CUDASourceCodeKernel ClusterKernel Kernel KernelLaunchFrame get_block_binding get_block_bindings
get_block_extent get_block_extents get_cluster_dims get_cluster_extent get_cluster_extents get_cluster_id
get_cluster_ids get_cluster_size get_thread_binding get_thread_bindings get_thread_extent get_thread_extents
"""
_MATH = """
abs2 add2 fast_rcp fma2 ieee_add ieee_fdiv ieee_fmaf ieee_frcp ieee_frsqrt ieee_fsqrt ieee_mul ieee_sub max2
min2 mul2 sub2
"""
_PROXY = """
Buffer FragmentBuffer LocalBuffer Ref SharedBuffer StridedTensor Tensor make_tensor make_tensor_from_addr ptr
"""
_REDUCE = """
finalize_reducer reduce reduce_absmax reduce_abssum reduce_bitand reduce_bitor reduce_bitxor reduce_max
reduce_min reduce_sum reducer_init reducer_update warp_reduce_bitand warp_reduce_bitor warp_reduce_max
warp_reduce_min warp_reduce_sum
"""
_OPERATIONS = """
call_extern call_intrin call_pure_extern extract_lane infinity pow ptx_arrive_barrier_expect_tx ptx_cp_async
reinterpret round tvm_access_ptr
"""

# Module -> its names; None: all of the language's.
LANGUAGE_PARTS: Mapping[str, str | None] = {
    "tilelang.language.atomic": (
        "atomic_add atomic_addx2 atomic_addx4 atomic_load atomic_max atomic_min atomic_or atomic_store"
    ),
    "tilelang.language.builtin": _BUILTIN,
    "tilelang.language.common": None,
    "tilelang.language.copy_op": "async_copy c2d_im2col copy copy_cluster im2col tma_copy transpose",
    "tilelang.language.customize": "clamp dp4a loop_break reshape view",
    "tilelang.language.eager": (
        "Ref annotate_compile_flags annotate_pass_configs const dtype macro prim_func"
    ),
    "tilelang.language.experimental": "",
    "tilelang.language.experimental.gemm_sp_op": "gemm_sp tcgen05_gemm_sp wgmma_gemm_sp",
    "tilelang.language.fill_op": "clear fill",
    "tilelang.language.gemm_op": "GemmWarpPolicy gemm gemm_blockscaled",
    "tilelang.language.kernel": _KERNEL,
    "tilelang.language.logical": "all_of any_of",
    "tilelang.language.loop": (
        "Parallel Persistent Pipelined Serial Unroll Vectorized serial unroll vectorized"
    ),
    "tilelang.language.math_intrinsics": _MATH,
    "tilelang.language.meta": "inline meta_class",
    "tilelang.language.proxy": _PROXY,
    "tilelang.language.reduce_op": _REDUCE,
    "tilelang.language.scan_op": "cummax cumsum",
    "tilelang.language.symbolics": "dynamic symbolic",
    "tilelang.language.tile_schedule": "BaseTileScheduler PersistentTileScheduler",
    "tilelang.language.tir": None,
    "tilelang.language.tir.common": None,
    "tilelang.language.tir.entry": "macro prim_func",
    "tilelang.language.tir.exports": None,
    "tilelang.language.tir.ir": (
        "Select align_up cast grid max min parallel serial thread_binding unroll vectorized"
    ),
    "tilelang.language.tir.op": _OPERATIONS,
    "tilelang.language.warp_specialize": "",
    # What only kernels for one kind of target had.
    "tilelang.cuda.language.atomic": "atomic_add",
    "tilelang.cuda.language.cluster": (
        "block_rank_in_cluster cluster_arrive cluster_arrive_relaxed cluster_sync cluster_wait"
    ),
    "tilelang.cuda.language.copy_op": "copy im2col",
    "tilelang.cuda.language.gemm_op": "gemm gemm_blockscaled gemm_sp wgmma_gemm",
    "tilelang.cuda.language.intrinsics": None,
    "tilelang.cuda.language.kernel": "Kernel",
    "tilelang.cuda.language.loop": "Parallel Unroll unroll",
    "tilelang.cuda.language.math": "fma fmul",
    "tilelang.cuda.language.pdl": "pdl_sync pdl_trigger",
    "tilelang.cuda.language.print": "print",
    "tilelang.cuda.language.random": "rng_init rng_rand rng_rand_float",
    "tilelang.cuda.language.reduce_op": "reduce_absmax reduce_max reduce_min",
    "tilelang.cuda.language.tir": None,
    "tilelang.cuda.language.warpgroup": "WarpSpecialize ws",
    "tilelang.cpu.language.kernel": "Kernel",
    "tilelang.metal.language.kernel": "Kernel",
    "tilelang.metal.language.tir": None,
    "tilelang.rocm.language.gemm_op": "gemm",
    "tilelang.rocm.language.intrinsics": None,
    "tilelang.rocm.language.kernel": "Kernel",
    "tilelang.rocm.language.tir": None,
}
