"""Numbers of fixed width in C++, and what device helpers for atomic updates are called after them."""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.ops.atomic import RELAXED

# dtype -> what names of helpers say for it: `atomic_add_f32`
SHORT: Mapping[str, str] = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "int16": "i16",
    "uint16": "u16",
    "int32": "i32",
    "uint32": "u32",
    "int64": "i64",
    "uint64": "u64",
}


def c_types(float16: str, bfloat16: str) -> dict[str, str]:
    """dtype -> type, where only the 16-bit floats have names of the target's own."""
    return {
        "bool": "bool",
        "int8": "signed char",
        "uint8": "unsigned char",
        "int16": "short",
        "uint16": "unsigned short",
        "int32": "int",
        "uint32": "unsigned",
        "int64": "long long",
        "uint64": "unsigned long long",
        "float16": float16,
        "bfloat16": bfloat16,
        "float32": "float",
        "float64": "double",
    }


def by_short_name(types: Mapping[str, str]) -> dict[str, str]:
    """`SHORT` name -> type, of those that atomics work on."""
    return {short: types[dtype] for dtype, short in SHORT.items()}


def atomic_name(kind: str, short: str, order: str = RELAXED) -> str:
    """`atomic_add_f32`, `atomic_add_f32_release`."""
    return f"atomic_{kind}_{short}" if order == RELAXED else f"atomic_{kind}_{short}_{order}"
