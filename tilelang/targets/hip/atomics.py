"""Device helpers for atomic updates on AMD GPUs: clang's `__hip_atomic_*` builtins, at device scope."""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.targets.emit.c_types import atomic_name, by_short_name, c_types
from tilelang.targets.emit.intrinsic import Intrinsic

_ORDER = {
    "relaxed": "__ATOMIC_RELAXED",
    "acquire": "__ATOMIC_ACQUIRE",
    "release": "__ATOMIC_RELEASE",
    "acq_rel": "__ATOMIC_ACQ_REL",
    "seq_cst": "__ATOMIC_SEQ_CST",
}
_TYPES = by_short_name(c_types("_Float16", "__bf16"))
_SCOPE = "__HIP_MEMORY_SCOPE_AGENT"


def _fetch(kind: str, short: str, order: str) -> Intrinsic:
    """An update. Halves go through compare and swap of their 16 bits: the builtins take none."""
    if short in ("f16", "bf16"):
        return _by_exchange(kind, short, order)
    return Intrinsic(
        inline=f"__hip_atomic_fetch_{kind}({{0}}, {{1}}, {_ORDER[order]}, {_SCOPE})", writes=(0,)
    )


def _by_exchange(kind: str, short: str, order: str) -> Intrinsic:
    type_name = _TYPES[short]
    new = {
        "add": f"{type_name}(float(old) + float(x))",
        "max": "float(old) >= float(x) || x != x ? old : x",
        "min": "float(old) <= float(x) || x != x ? old : x",
    }[kind]
    return Intrinsic(
        f"""{type_name} {atomic_name(kind, short, order)}({type_name}* p, {type_name} x) {{
  unsigned short* bits = reinterpret_cast<unsigned short*>(p);
  unsigned short seen = __hip_atomic_load(bits, __ATOMIC_RELAXED, {_SCOPE});
  while (true) {{
    {type_name} old = __builtin_bit_cast({type_name}, seen);
    unsigned short wanted = __builtin_bit_cast(unsigned short, {type_name}({new}));
    if (__hip_atomic_compare_exchange_strong(
            bits, &seen, wanted, {_ORDER[order]}, __ATOMIC_RELAXED, {_SCOPE}))
      return old;
  }}
}}"""
    )


def _load(short: str, order: str) -> Intrinsic:
    return Intrinsic(inline=f"__hip_atomic_load({{0}}, {_ORDER[order]}, {_SCOPE})")


def _store(short: str, order: str) -> Intrinsic:
    return Intrinsic(inline=f"__hip_atomic_store({{0}}, {{1}}, {_ORDER[order]}, {_SCOPE})", writes=(0,))


_ADDED = ("f16", "bf16", "f32", "f64", "i32", "u32", "i64", "u64")
_KINDS = {"add": _ADDED, "max": _ADDED, "min": _ADDED, "or": ("i32", "u32", "i64", "u64")}

ATOMICS: Mapping[str, Intrinsic] = {
    **{
        atomic_name(kind, t, order): _fetch(kind, t, order)
        for kind, types in _KINDS.items()
        for t in types
        for order in _ORDER
    },
    **{atomic_name("load", t, o): _load(t, o) for t in _TYPES for o in ("relaxed", "acquire", "seq_cst")},
    **{atomic_name("store", t, o): _store(t, o) for t in _TYPES for o in ("relaxed", "release", "seq_cst")},
}
