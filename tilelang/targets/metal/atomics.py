"""Device helpers for atomic updates in Metal: 32-bit numbers, relaxed (Metal Shading Language 6.15)."""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.targets.emit.intrinsic import Intrinsic

_TYPES = {"f32": "float", "i32": "int", "u32": "uint"}
_SPACES = {"": "device", "_shared": "threadgroup"}
_KINDS = {"add": ("f32", "i32", "u32"), "max": ("i32", "u32"), "min": ("i32", "u32"), "or": ("i32", "u32")}


def _pointer(short: str, suffix: str, const: str = "") -> str:
    return f"({const}{_SPACES[suffix]} atomic_{_TYPES[short]}*)({{0}})"


ATOMICS: Mapping[str, Intrinsic] = {
    **{
        f"atomic_{kind}_{t}{suffix}": Intrinsic(
            inline=f"atomic_fetch_{kind}_explicit({_pointer(t, suffix)}, {{1}}, memory_order_relaxed)",
            writes=(0,),
        )
        for kind, types in _KINDS.items()
        for t in types
        for suffix in _SPACES
    },
    **{
        f"atomic_load_{t}{suffix}": Intrinsic(
            inline=f"atomic_load_explicit({_pointer(t, suffix, 'const ')}, memory_order_relaxed)"
        )
        for t in _TYPES
        for suffix in _SPACES
    },
    **{
        f"atomic_store_{t}{suffix}": Intrinsic(
            inline=f"atomic_store_explicit({_pointer(t, suffix)}, {{1}}, memory_order_relaxed)", writes=(0,)
        )
        for t in _TYPES
        for suffix in _SPACES
    },
}
