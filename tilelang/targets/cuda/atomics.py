"""Device helpers for atomic updates on NVIDIA GPUs: CUDA's functions, inline PTX where they end.

Relaxed updates are CUDA's own `atomicAdd` and kin (device scope). Other memory orders put fences around them
(PTX ISA 9.7.13.4: a fence before a relaxed update makes a release pattern, one after it an acquire pattern).
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.targets.emit.c_types import atomic_name, by_short_name, c_types
from tilelang.targets.emit.intrinsic import Intrinsic

_TYPES = by_short_name(c_types("half", "__nv_bfloat16"))
_BITS = {"16": "unsigned short", "32": "unsigned", "64": "unsigned long long"}
_FUNCTIONS = {"add": "atomicAdd", "max": "atomicMax", "min": "atomicMin", "or": "atomicOr"}
_ORDERS = ("acquire", "release", "acq_rel", "seq_cst")
_FENCES: Mapping[str, Intrinsic] = {
    # PTX ISA 9.7.13.4 (membar, fence).
    "fence_acq_rel": Intrinsic(
        'void fence_acq_rel() {\n  asm volatile("fence.acq_rel.gpu;" ::: "memory");\n}'
    ),
    "fence_seq_cst": Intrinsic('void fence_seq_cst() {\n  asm volatile("fence.sc.gpu;" ::: "memory");\n}'),
}


def _bits(short: str) -> str:
    return _BITS[short.lstrip("bfiu")]


def _relaxed(kind: str, short: str) -> str:
    """The expression of a relaxed update of `*p` by `x`, both of the element's type."""
    function = _FUNCTIONS[kind]
    if short == "i64" and kind in ("add", "or"):  # two's complement: the unsigned form does the same
        unsigned = "unsigned long long"
        return f"(long long){function}(({unsigned}*)({{0}}), ({unsigned})({{1}}))"
    return f"{function}({{0}}, {{1}})"


def _by_exchange(kind: str, short: str) -> Intrinsic:
    """max and min of floats, of which CUDA has none: compare and swap until nobody else came between."""
    name, type_name, bits = atomic_name(kind, short), _TYPES[short], _bits(short)
    better = ">=" if kind == "max" else "<="
    return Intrinsic(
        f"""{type_name} {name}({type_name}* p, {type_name} x) {{
  {bits}* bits = reinterpret_cast<{bits}*>(p);
  {bits} seen = *const_cast<volatile {bits}*>(bits);
  while (true) {{
    {type_name} old = bit_cast<{type_name}>(seen);
    if (old {better} x || x != x) return old;
    {bits} found = atomicCAS(bits, seen, bit_cast<{bits}>(x));
    if (found == seen) return old;
    seen = found;
  }}
}}""",
        requires=("bit_cast",),
    )


def _update(kind: str, short: str) -> Intrinsic:
    if kind in ("max", "min") and "f" in short:
        return _by_exchange(kind, short)
    return Intrinsic(inline=_relaxed(kind, short), writes=(0,))


def _ordered(kind: str, short: str, order: str) -> Intrinsic:
    name, type_name = atomic_name(kind, short, order), _TYPES[short]
    fence = "fence_seq_cst" if order == "seq_cst" else "fence_acq_rel"
    by_exchange = kind in ("max", "min") and "f" in short
    relaxed = f"atomic_{kind}_{short}(p, x)" if by_exchange else _relaxed(kind, short).format("p", "x")
    before = f"  {fence}();\n" if order != "acquire" else ""
    after = f"  {'fence_acq_rel' if order == 'acquire' else fence}();\n" if order != "release" else ""
    needs = {fence, *([f"atomic_{kind}_{short}"] if by_exchange else [])}
    return Intrinsic(
        f"{type_name} {name}({type_name}* p, {type_name} x) {{\n{before}"
        f"  {type_name} old = {relaxed};\n{after}  return old;\n}}",
        requires=tuple(sorted(needs)),
    )


_CONSTRAINT = {"16": "h", "32": "r", "64": "l"}


def _load(short: str, order: str) -> Intrinsic:
    """PTX ISA 9.7.9.8 (ld): relaxed or acquire at device scope."""
    type_name, bits, width = _TYPES[short], _bits(short), short.lstrip("bfiu")
    semantics = "relaxed" if order == "relaxed" else "acquire"
    fence = "  fence_seq_cst();\n" if order == "seq_cst" else ""
    return Intrinsic(
        f"""{type_name} {atomic_name("load", short, order)}(const {type_name}* p) {{
{fence}  {bits} x;
  asm volatile("ld.{semantics}.gpu.b{width} %0, [%1];" : "={_CONSTRAINT[width]}"(x) : "l"(p) : "memory");
  return bit_cast<{type_name}>(x);
}}""",
        requires=("bit_cast", *(("fence_seq_cst",) if fence else ())),
    )


def _store(short: str, order: str) -> Intrinsic:
    """PTX ISA 9.7.9.12 (st): relaxed or release at device scope."""
    type_name, bits, width = _TYPES[short], _bits(short), short.lstrip("bfiu")
    semantics = "relaxed" if order == "relaxed" else "release"
    fence = "  fence_seq_cst();\n" if order == "seq_cst" else ""
    return Intrinsic(
        f"""void {atomic_name("store", short, order)}({type_name}* p, {type_name} x) {{
{fence}  asm volatile("st.{semantics}.gpu.b{width} [%0], %1;"
               ::"l"(p), "{_CONSTRAINT[width]}"(bit_cast<{bits}>(x)) : "memory");
}}""",
        requires=("bit_cast", *(("fence_seq_cst",) if fence else ())),
    )


def _wide(short: str, lanes: int) -> Intrinsic:
    """Neighbours at once: pairs of halves by CUDA's functions, vectors by PTX ISA 9.7.13.6 (red, sm_90)."""
    name, type_name = f"atomic_add_{short}x{lanes}", _TYPES[short]
    values = ", ".join(f"{type_name} x{k}" for k in range(lanes))
    head = f"void {name}({type_name}* p, {values}) {{\n"
    if short == "f32":
        registers = ", ".join(f"%{k + 1}" for k in range(lanes))
        inputs = ", ".join(f'"f"(x{k})' for k in range(lanes))
        return Intrinsic(
            f'{head}  asm volatile("red.relaxed.gpu.global.add.v{lanes}.f32 [%0], {{{registers}}};"\n'
            f'               ::"l"(__cvta_generic_to_global(p)), {inputs} : "memory");\n}}'
        )
    pair, join = {"f16": ("half2", "__halves2half2"), "bf16": ("__nv_bfloat162", "__halves2bfloat162")}[short]
    if lanes == 2:
        return Intrinsic(f"{head}  atomicAdd(reinterpret_cast<{pair}*>(p), {join}(x0, x1));\n}}")
    pairs = lanes // 2
    registers = ", ".join(f"%{k + 1}" for k in range(pairs))
    inputs = ", ".join(f'"r"(bit_cast<unsigned>({join}(x{2 * k}, x{2 * k + 1})))' for k in range(pairs))
    return Intrinsic(
        f'{head}  asm volatile("red.relaxed.gpu.global.add.noftz.v{pairs}.{short}x2 [%0], {{{registers}}};"\n'
        f'               ::"l"(__cvta_generic_to_global(p)),\n                 {inputs} : "memory");\n}}',
        requires=("bit_cast",),
    )


_ADDED = ("f16", "bf16", "f32", "f64", "i32", "u32", "i64", "u64")
_MOVED = (*_ADDED, "i16", "u16")
_KINDS = {"add": _ADDED, "max": _ADDED, "min": _ADDED, "or": ("i32", "u32", "i64", "u64")}

ATOMICS: Mapping[str, Intrinsic] = {
    **_FENCES,
    **{atomic_name(kind, t): _update(kind, t) for kind, types in _KINDS.items() for t in types},
    **{
        atomic_name(kind, t, order): _ordered(kind, t, order)
        for kind, types in _KINDS.items()
        for t in types
        for order in _ORDERS
    },
    **{atomic_name("load", t, o): _load(t, o) for t in _MOVED for o in ("relaxed", "acquire", "seq_cst")},
    **{atomic_name("store", t, o): _store(t, o) for t in _MOVED for o in ("relaxed", "release", "seq_cst")},
    **{f"atomic_add_f32x{lanes}": _wide("f32", lanes) for lanes in (2, 4)},
    **{f"atomic_add_{t}x{lanes}": _wide(t, lanes) for t in ("f16", "bf16") for lanes in (2, 4, 8)},
}
