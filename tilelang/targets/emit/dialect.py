"""What differs between the C-family languages, as one record of tables per target.

A new target is a new record; the printer (`targets.c_printer`) has no branch on a target's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tilelang.targets.emit import narrow_floats
from tilelang.targets.emit.intrinsic import Intrinsic


@dataclass(frozen=True)
class KernelHead:
    """What a kernel's signature is made from. `params` are (C type with qualifiers, name, is pointer)."""

    name: str
    params: tuple[tuple[str, str, bool], ...]
    threads: int
    min_blocks: int | None
    uses: frozenset[str]  # launch axes that the body reads: "blockIdx.x", "threadIdx.y", ...
    aliased: frozenset[str] = frozenset()  # parameters whose memory others may name too: no `restrict`
    cluster: str = ""  # blocks of a cluster along x, y, z, as in "2, 1, 1"


@dataclass(frozen=True)
class PairConversion:
    """`function` makes a value of the type `result` from one of the type `source`: two elements each."""

    source: str
    result: str
    function: str  # with `{0}`


@dataclass(frozen=True)
class Dialect:
    """One target language.

    `functions` maps the bare name of an operation (`exp2`) and a dtype to its spelling, with `{0}`, `{1}` for
    arguments; a spelling that begins with `@` names a device helper. 16-bit and 8-bit floats without an entry
    are computed in float32.
    """

    name: str  # also the prefix of its instructions: `tl.<name>.*`
    types: Mapping[str, str]  # TIRX dtype -> type
    functions: Mapping[str, Mapping[str, str]]
    intrinsics: Mapping[str, Intrinsic]  # `tl.<name>.<key>`
    kernel: Callable[[KernelHead], list[str]]  # the lines of the signature, up to and with `{`
    infinity: str
    nan: str
    align: str  # "__align__({0})"
    arena: str  # declaration of the shared arena, `{bytes}` and `{align}`
    shared_array: str  # qualifier of a shared array of its own
    helper_linkage: str  # before every helper function
    axes: Mapping[str, str]  # launch axis ("threadIdx.x") -> the expression that reads it
    includes: tuple[str, ...] = ()
    constant_includes: tuple[str, ...] = ()  # headers that `infinity` and `nan` need
    type_includes: Mapping[str, str] = field(default_factory=dict)  # dtype -> header
    extern_helpers: Mapping[str, str] = field(default_factory=dict)  # function called by name -> helper
    prelude: tuple[str, ...] = ()  # lines at the top of every file, after the includes
    spaces: Mapping[str, str] = field(default_factory=dict)  # scope -> address space, with a trailing blank
    # Scope -> element type of `local`-like arrays.
    opaque_types: Mapping[str, str] = field(default_factory=dict)
    # Bytes -> type that moves them at once.
    vector_types: Mapping[int, str] = field(
        default_factory=lambda: {
            16: "uint4",
            8: "uint2",
            4: "unsigned",
            2: "unsigned short",
            1: "unsigned char",
        }
    )
    # (dtype, dtype to convert to) -> the function for two neighbours.
    pair_conversions: Mapping[tuple[str, str], PairConversion] = field(default_factory=dict)
    declarations: Mapping[str, str] = field(default_factory=dict)  # type name -> its declaration, if used
    zero_vector: str = "{type}{{}}"  # a vector type's value of zeros
    reinterpret: str = "@bit_cast"
    int64_suffix: str = "LL"
    exact_overloads: bool = False  # whether `max(short, int)` is ambiguous
    # Helpers whose text depends on sizes in their name, written when they are called.
    generated: Callable[[str], Intrinsic | None] = field(default=lambda _: None)
    line_directives: bool = True


COMMON_HELPERS: Mapping[str, Intrinsic] = {
    **narrow_floats.HELPERS,
    "encode_float4": Intrinsic(
        """unsigned char encode_float4(float x) {
  return to_float4_e2m1fn(x).bits;
}""",
        requires=("to_float4_e2m1fn",),
        types=("float4_e2m1fn",),
    ),
    "decode_float4": Intrinsic(
        """float decode_float4(unsigned char code) {
  return from_float4_e2m1fn(float4_e2m1fn{code});
}""",
        requires=("from_float4_e2m1fn",),
        types=("float4_e2m1fn",),
    ),
    # IEEE 754 nextUp and nextDown: floats of one sign are ordered as their bits are.
    "nextafter": Intrinsic(
        """float next_after(float x, float y) {
  if (x != x || y != y) return x + y;
  if (x == y) return y;
  if (x == 0.0f) return bit_cast<float>(y > 0.0f ? 1u : 0x80000001u);
  unsigned bits = bit_cast<unsigned>(x);
  return bit_cast<float>((x < y) == (x > 0.0f) ? bits + 1u : bits - 1u);
}""",
        requires=("bit_cast",),
    ),
    "floordiv": Intrinsic(
        """template <typename T> T floordiv(T a, T b) {
  T q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}"""
    ),
    "floormod": Intrinsic(
        """template <typename T> T floormod(T a, T b) {
  T r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}"""
    ),
    "bit_cast": Intrinsic(
        """template <typename To, typename From> To bit_cast(From x) {
  static_assert(sizeof(To) == sizeof(From), "");
  To y;
  __builtin_memcpy(&y, &x, sizeof(To));
  return y;
}"""
    ),
}


def floats(spelling: str, double: str | None = None) -> dict[str, str]:
    """Spellings of a function on float32 and float64: `expf({0})`, `exp({0})`."""
    return {"float32": spelling, "float64": double or spelling.replace("f(", "(", 1)}


def signature_lines(opening: str, params: list[str], closing: str, width: int = 110) -> list[str]:
    """The signature on one line if it fits, else one parameter a line."""
    line = f"{opening}{', '.join(params)}{closing}"
    if len(line) <= width or not params:
        return [line]
    return [opening, *(f"    {p}," for p in params[:-1]), f"    {params[-1]}{closing}"]
