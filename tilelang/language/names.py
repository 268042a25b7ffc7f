"""What each name of the language is to the compiler: one table, read by the frontend, completion and hovers.

Keys are attribute names of `tilelang.language`. The declaration itself carries signature and documentation.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import tilelang.language as declarations
from tilelang.arch.dtypes import DTYPES
from tilelang.language.dtypes import DTYPE_ALIASES
from tilelang.language.vector_dtypes import VECTOR_NAMES

EntryKind = Literal[
    "tile_op",
    "frame",
    "alloc",
    "tensor",
    "layout",
    "reducer",
    "allreduce",
    "debug",
    "expr",
    "dtype",
    "annotation",
    "thread",
    "extern",
    "barrier",
    "launch",
    "builder",
    "code",
    "meta",
]


@dataclass(frozen=True)
class Entry:
    """One name.

    kind: tile_op is looked up in `ops.registry.TILE_OPS` by `op`; frame is the launch or a loop; alloc
    makes a buffer of the scope `op`; tensor declares arguments, sizes and views; expr is a scalar function
    `op`; dtype names the dtype `op`; annotations are statements; thread is code that deals with threads by
    itself (numbers, barriers, exchanges); extern is foreign code; launch a whole launch of it; barrier
    is asynchronous work and its barriers; code is written in the language itself; meta are decorators,
    enumerations and types; builder what TVM's own script calls it.
    fixed: operands that the name itself decides, by parameter name of the operation.
    unsupported: parameters that are declared for compatibility; given another value than the default they
    are refused.
    """

    kind: EntryKind
    op: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    unsupported: frozenset[str] = frozenset()


def _reduce(kind: str, *unsupported: str) -> Entry:
    return Entry("tile_op", "reduce", {"kind": kind}, frozenset(unsupported))


def _atomic(kind: str, *unsupported: str, lanes: int = 1) -> Entry:
    return Entry("tile_op", "atomic", {"kind": kind, "lanes": lanes}, frozenset(unsupported))


def _entries(kind: EntryKind, names: str) -> dict[str, Entry]:
    return {name: Entry(kind, name) for name in names.split()}


_TILE_OPS = {
    "copy": Entry("tile_op", "copy"),
    "gemm": Entry("tile_op", "gemm"),
    "gemm_sp": Entry("tile_op", "gemm_sp"),
    "wgmma_gemm_sp": Entry("tile_op", "gemm_sp", {"asynchronous": True}),
    "wgmma_gemm": Entry("tile_op", "gemm", {"asynchronous": True}),
    "wgmma_mma": Entry("tile_op", "gemm", {"asynchronous": True}),
    "fill": Entry("tile_op", "fill"),
    "clear": Entry("tile_op", "fill", {"value": 0}),
    "reduce_sum": _reduce("sum"),
    "reduce_max": _reduce("max"),
    "reduce_min": _reduce("min"),
    "reduce_abssum": _reduce("abssum"),
    "reduce_absmax": _reduce("absmax"),
    "reduce": Entry("tile_op", "reduce"),
    "reduce_bitand": _reduce("bitand"),
    "reduce_bitor": _reduce("bitor"),
    "reduce_bitxor": _reduce("bitxor"),
    "cumsum": Entry("tile_op", "scan", {"kind": "sum"}),
    "cummax": Entry("tile_op", "scan", {"kind": "max"}),
    "transpose": Entry("tile_op", "transpose"),
    "im2col": Entry("tile_op", "im2col"),
    "c2d_im2col": Entry("tile_op", "im2col"),
    "atomic_add": _atomic("add"),
    "atomic_max": _atomic("max"),
    "atomic_min": _atomic("min"),
    "atomic_or": _atomic("or"),
    "atomic_addx2": _atomic("add", lanes=2),
    "atomic_addx4": _atomic("add", lanes=4),
    "atomic_load": _atomic("load"),
    "atomic_store": _atomic("store"),
}

_FRAMES = {
    "Kernel": Entry("frame", "Kernel"),
    "ClusterKernel": Entry("frame", "Kernel"),
    "Parallel": Entry("frame", "Parallel"),
    "Pipelined": Entry("frame", "Pipelined"),
    "serial": Entry("frame", "serial"),
    "Serial": Entry("frame", "serial"),
    "parallel": Entry("frame", "serial"),
    "Persistent": Entry("frame", "Persistent", unsupported=frozenset({"annotations"})),
    "grid": Entry("frame", "grid"),
    "thread_binding": Entry("frame", "thread_binding"),
    "WarpSpecialize": Entry("frame", "ws"),
    "ws": Entry("frame", "ws"),
    "ws_op": Entry("frame", "ws_op"),
    "sblock": Entry("frame", "sblock"),
    "launch_thread": Entry("frame", "launch_thread"),
    "unroll": Entry("frame", "unroll"),
    "Unroll": Entry("frame", "unroll"),
    "vectorized": Entry("frame", "vectorized"),
    "Vectorized": Entry("frame", "vectorized"),
}

_ALLOCATIONS = {
    "alloc_shared": Entry("alloc", "shared"),
    "alloc_fragment": Entry("alloc", "local.fragment"),
    "alloc_local": Entry("alloc", "local"),
    "alloc_global": Entry("alloc", "global"),
    "alloc_reducer": Entry("alloc", "local.reducer"),
    "alloc_var": Entry("alloc", "local.var"),
}

# An object that has several names is called by its last one: the older ones come first.
_TENSORS = {
    "Buffer": Entry("tensor", "Tensor"),
    **_entries("tensor", "Tensor StridedTensor dynamic const empty reshape view"),
    "symbolic": Entry("tensor", "dynamic"),
    "Var": Entry("tensor", "dynamic"),
    "SizeVar": Entry("tensor", "dynamic"),
}

_REDUCERS = _entries("reducer", "reducer_init reducer_update finalize_reducer any_of all_of")

_LAYOUTS = _entries(
    "layout",
    "Layout Fragment annotate_layout make_swizzled_layout make_wgmma_swizzled_layout make_linear_layout "
    "make_volta_swizzled_layout make_full_bank_swizzled_layout make_half_bank_swizzled_layout "
    "make_mma_swizzle_layout make_cutlass_metadata_layout "
    "make_quarter_bank_swizzled_layout",
) | {"compute_gmma_descriptor": Entry("layout", "compute_gmma_descriptor", unsupported=frozenset({"region"}))}

_EXPRESSIONS = _entries(
    "expr",
    "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt pow fma fmod sigmoid erf "
    "sin cos tan asin acos atan atan2 sinh cosh tanh "
    "asinh acosh atanh hypot copysign ldexp nextafter fabs popcount clz __ffs align_up likely __ldg "
    "q_multiply_shift q_multiply_shift_per_axis "
    "index_to_coordinates "
    "__exp __exp10 __log __log2 __log10 __sin __cos __tan fast_rcp "
    "ieee_add ieee_sub ieee_mul ieee_fmaf ieee_frcp ieee_fsqrt ieee_frsqrt ieee_fdiv dp4a "
    "rng_init rng_rand rng_rand_float "
    "abs max min clamp floor ceil trunc nearbyint isnan isinf isfinite "
    "infinity max_value min_value if_then_else reinterpret "
    "ceildiv floordiv floormod truncdiv truncmod "
    "bitwise_and bitwise_or bitwise_xor bitwise_not shift_left shift_right "
    "add2 sub2 mul2 fma2 max2 min2 abs2 "
    "extract_lane Shuffle Broadcast broadcast vectorlow vectorhigh vectorcombine",
) | {
    "cdiv": Entry("expr", "ceildiv"),
    "fmul": Entry("expr", "ieee_mul"),
    "Select": Entry("expr", "Select"),
    "round": Entry("expr", "round"),
    "cast": Entry("expr", "cast", unsupported=frozenset({"rbits"})),
}

# Aliases first: an object that has several names is called by its last one.
_DTYPES = {
    name: Entry("dtype", str(getattr(declarations, name)))
    for name in (*DTYPE_ALIASES, *DTYPES, *VECTOR_NAMES)
}

_THREADS = _entries(
    "thread",
    "get_thread_binding get_thread_bindings get_thread_extent get_thread_extents "
    "get_block_binding get_block_bindings get_block_extent get_block_extents "
    "get_cluster_dims get_cluster_size get_cluster_id get_cluster_ids get_cluster_extent "
    "get_cluster_extents get_lane_idx get_warp_idx get_warp_idx_sync get_warp_group_idx shuffle_elect "
    "shfl_sync shfl_xor shfl_up shfl_down any_sync all_sync ballot_sync ballot activemask "
    "match_any_sync match_all_sync syncthreads_count syncthreads_and syncthreads_or "
    "warp_reduce_sum warp_reduce_max warp_reduce_min warp_reduce_bitand warp_reduce_bitor "
    "sync_threads sync_warp sync_grid named_barrier_arrive loop_break break_loop continue_loop "
    "thread_return ptx_ldmatrix ptx_mma ptx_mma_sp ptx_cp_async "
    "alloc_descriptor alloc_wgmma_desc initialize_wgmma_descriptor increase_descriptor_offset "
    "ptx_wgmma_ss ptx_wgmma_rs ptx_wgmma_sp_ss ptx_wgmma_sp_rs "
    "warpgroup_arrive warpgroup_commit_batch warpgroup_fence_operand "
    "ldg32 ldg64 ldg128 ldg256 stg32 stg64 stg128 stg256 lds32 lds64 lds128 sts32 sts64 sts128",
)

_EXTERNS = {name: Entry("extern", "ptr") for name in ("Ptr", "handle")} | _entries(
    "extern",
    "import_source call_extern call_pure_extern call_intrin address_of access_ptr ptr make_tensor "
    "make_tensor_from_addr "
    "annotate_min_blocks_per_sm annotate_compile_flags annotate_pass_configs",
)

_BARRIERS = _entries(
    "barrier",
    "cluster_arrive cluster_arrive_relaxed cluster_wait cluster_sync block_rank_in_cluster "
    "tma_store_arrive tma_store_wait mbarrier_arrive "
    "alloc_barrier mbarrier_wait_parity mbarrier_expect_tx mbarrier_arrive_expect_tx barrier_arrive "
    "cp_async_barrier_noinc create_tma_descriptor tma_load ptx_cp_async_bulk "
    "create_barriers ptx_init_barrier_thread_count ptx_arrive_barrier ptx_arrive_barrier_expect_tx "
    "ptx_cp_async_barrier ptx_wait_barrier ptx_arrive_cluster_barrier ptx_fence_barrier_init "
    "barrier_wait fence_proxy_async ptx_commit_group ptx_wait_group pdl_trigger pdl_sync set_max_nreg "
    "inc_max_nreg dec_max_nreg no_set_max_nreg disable_warp_group_reg_alloc "
    "annotate_producer_reg_dealloc annotate_consumer_reg_alloc",
) | {
    "tma_copy": Entry("barrier", "tma_copy"),
    "copy_cluster": Entry("barrier", "copy_cluster"),
    "alloc_cluster_barrier": Entry("barrier", "alloc_barrier"),
    "async_copy": Entry("barrier", "async_copy"),
}

_BUILDERS = _entries(
    "builder",
    "Add Sub Mul Div Mod FloorDiv FloorMod Max Min EQ NE LT LE GT GE And Or Not IntImm FloatImm StringImm "
    "boolean BufferLoad buffer_store bind ignore_loop_partition tvm_thread_invariant func_attr alloc_buffer "
    "sblock_alloc_buffer allocate match_buffer tvm_storage_sync tvm_warp_shuffle tvm_warp_shuffle_up "
    "tvm_warp_shuffle_down tvm_warp_activemask __fns is_float4 is_float4_e2m1fn is_f8f6f4_family "
    "get_tvm_dtype is_float4_e2m1_unpacked validate_gemm_ab_dtypes meta_var type_annotation tvm_access_ptr "
    "Assert "
    "Ramp ramp Range var Let let Call isnullptr reads writes sblock_attr env_thread mma_fill mma_store "
    "annotate_ws_schedule annotate_ws_pipeline_depth "
    "WSOpRef WSSync WSRole WSPipeline WSScope WSSchedule WSInstr",
) | {
    **{
        name: Entry("builder", "decl_buffer", unsupported=frozenset({"elem_offset", "axis_separators"}))
        for name in ("buffer", "buffer_decl")
    },
    "decl_buffer": Entry(
        "builder",
        "decl_buffer",
        unsupported=frozenset({"elem_offset", "axis_separators"}),
    ),
}

LANGUAGE: Mapping[str, Entry] = MappingProxyType(
    {
        **_TILE_OPS,
        **_FRAMES,
        **_ALLOCATIONS,
        **_TENSORS,
        **_LAYOUTS,
        **_REDUCERS,
        **_entries("debug", "print device_assert"),
        **_entries("allreduce", "comm_reducer tvm_thread_allreduce evaluate"),
        "attr": Entry("frame", "attr"),
        **{name: Entry("frame", name) for name in ("If", "Then", "Else", "While")},
        "Cast": Entry("expr", "Cast"),
        **_entries(
            "annotation",
            "annotate_safe_value annotate_l2_hit_ratio annotate_restrict_buffers assume",
        ),
        **_EXPRESSIONS,
        **_DTYPES,
        "wait_wgmma": Entry("annotation", "wait_wgmma"),
        "warpgroup_wait": Entry("annotation", "warpgroup_wait"),
        "use_swizzle": Entry("annotation", "use_swizzle"),
        **_THREADS,
        **_EXTERNS,
        "CUDASourceCodeKernel": Entry("launch", "CUDASourceCodeKernel"),
        **_BARRIERS,
        **_BUILDERS,
        **_entries("code", "get_mma_micro_size get_swizzle_layout get_ldmatrix_offset mma_store_index_map"),
        **_entries(
            "meta",
            "PrimExpr AnyDType WSSyncKind WSID "
            "PrimFunc prim_func macro inline meta_class Ref SharedBuffer FragmentBuffer LocalBuffer "
            "BaseTileScheduler PersistentTileScheduler GemmWarpPolicy dtype Scalar Tile "
            "TensorCoreIntrinEmitter TensorCoreIntrinEmitterWithLadderTransform KernelLaunchFrame "
            "WGMMATensorCoreIntrinEmitter SparseTensorCoreIntrinEmitter WGSparseTensorCoreIntrinEmitter "
            "WGMMADescriptorParams",
        ),
    }
)


def declared_name(value: object) -> str | None:
    """The name in `LANGUAGE` that `value` is declared under: `T.copy` (however imported) -> "copy". None
    for others.
    """
    return _names_by_identity().get(id(value))


@functools.cache
def _names_by_identity() -> dict[int, str]:
    return {id(getattr(declarations, name)): name for name in LANGUAGE}
