"""Names of the language that this compiler does not implement yet: they are no spelling mistakes."""

from __future__ import annotations

from tvm import tirx as X

# Vector dtypes and narrow floats, of which there are hundreds.
_PREFIXES = ("float4_", "call_", "tvm_", "ptx_", "tcgen05_", "wgmma_", "mma_")


def is_not_supported(name: str) -> bool:
    """Whether the language has a name that this compiler does not implement.

    The language also exports TVM's own builders (`T.Cast`, `T.BufferLoad`), so their names are no mistakes.
    """
    return name in NOT_SUPPORTED_NAMES or name.startswith(_PREFIXES) or hasattr(X, name)


# What earlier releases had, or documentation names.
_OTHERS = frozenset(
    {
        "all",
        "any",
        "block_attr",
        "dyn",
        "alloc_global",
        "alloc_barrier",
        "alloc_cluster_barrier",
        "alloc_tmem",
        "deallocate_tmem",
        "alloc_reducer",
        "alloc_descriptor",
        "async_copy",
        "tma_copy",
        "copy_cluster",
        "tma_gather4",
        "tma_scatter4",
        "im2col",
        "c2d_im2col",
        "transpose",
        "wgmma_gemm",
        "wait_wgmma",
        "tcgen05_gemm",
        "tcgen05_gemm_blockscaled",
        "mma_gemm_blockscaled",
        "gemm_sp",
        "wgmma_gemm_sp",
        "tcgen05_gemm_sp",
        "gemm_v1",
        "gemm_v2",
        "loop_continue",
        "macro_ref",
        "handle",
        "Var",
    ]
)
