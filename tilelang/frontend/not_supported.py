"""Names of the language that this compiler does not implement yet: they are no spelling mistakes."""

from __future__ import annotations

from tvm import tirx as X

from tilelang.language.released import RELEASED_NAMES

# What earlier releases had, or documentation names.
_OTHERS = frozenset(
    {
        "all",
        "any",
        "block_attr",
        "gemm_v1",
        "gemm_v2",
        "loop_continue",
        "macro_ref",
        "sync_global",
    }
)
# Families of which releases add members.
_PREFIXES = ("float4_", "call_", "tvm_", "ptx_", "tcgen05_", "wgmma_", "mma_")


def is_not_supported(name: str) -> bool:
    """Whether the language has a name; asked of names that this compiler does not implement.

    The language also exports TVM's own builders (`T.Cast`, `T.BufferLoad`), so their names are no mistakes.
    """
    return name in RELEASED_NAMES or name in _OTHERS or name.startswith(_PREFIXES) or hasattr(X, name)
