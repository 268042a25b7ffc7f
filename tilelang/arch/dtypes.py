"""Dtypes: their sizes and kinds, and the one function that reads every spelling of them. Plain Python."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Any, Literal

from tilelang.arch.float_formats import FORMATS

Kind = Literal["bool", "int", "uint", "float"]


@dataclass(frozen=True)
class DTypeInfo:
    """`bits` of one element of the vector, `lanes` elements."""

    name: str
    kind: Kind
    bits: int
    lanes: int = 1

    @property
    def bytes(self) -> int:
        """Bytes of the whole value in memory; a bool takes one, and so does half a byte on its own."""
        bits = 8 if self.kind == "bool" else self.bits
        return (bits * self.lanes + 7) // 8

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned; bool is none."""
        return self.kind in ("int", "uint")


_SCALARS: tuple[DTypeInfo, ...] = (
    DTypeInfo("bool", "bool", 1),
    *(DTypeInfo(f"int{bits}", "int", bits) for bits in (4, 8, 16, 32, 64)),
    *(DTypeInfo(f"uint{bits}", "uint", bits) for bits in (4, 8, 16, 32, 64)),
    DTypeInfo("float16", "float", 16),
    DTypeInfo("bfloat16", "float", 16),
    DTypeInfo("float32", "float", 32),
    DTypeInfo("float64", "float", 64),
    *(DTypeInfo(f.name, "float", f.bits) for f in FORMATS.values()),
)
DTYPES: dict[str, DTypeInfo] = {d.name: d for d in _SCALARS}

# Other ways to write the same dtype: C's and numpy's words, and the short forms that papers use.
ALIASES: dict[str, str] = {
    "boolean": "bool",
    "bool_": "bool",
    "char": "int8",
    "byte": "uint8",
    "short": "int16",
    "int": "int32",
    "uint": "uint32",
    "long": "int64",
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "fp64": "float64",
    # On tensor cores a float32 tile is multiplied as TF32; memory holds the same 32 bits.
    "tfloat32": "float32",
    "tf32": "float32",
    # torch has one e4m3, the "fn" form, which is also what NVIDIA's instructions call e4m3.
    "float8_e4m3": "float8_e4m3fn",
    "e4m3_float8": "float8_e4m3fn",
    "e5m2_float8": "float8_e5m2",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "float8_e8m0": "float8_e8m0fnu",
    "float4_e2m1": "float4_e2m1fn",
}

# Names the language has and this compiler does not lower: a refusal must not call them misspelt.
_NOT_SUPPORTED = re.compile(r"(float(8|6|4)(_\w+)?|e\d+m\d+\w*|fp(8|6|4)(_\w+)?|u?int[12])")

# A Python type as a dtype means what an unsuffixed literal of it means in a kernel.
_PYTHON_TYPES: dict[type, str] = {bool: "bool", int: "int32", float: "float32"}


def canonical_dtype(spelling: Any) -> str:
    """The canonical name of a dtype: `"float16"` for "float16", "half", "fp16", T.float16, torch.half,
    np.float16.

    A vector dtype keeps its lanes: `"float16x4"`. torch and numpy need not be importable. Raises ValueError
    that names the nearest dtype, or says that the dtype is not supported.
    """
    text = _text(spelling)
    base, lanes = _split_lanes(text)
    name = base if base in DTYPES else ALIASES.get(base)
    if name is None:
        raise ValueError(_unknown(text, base))
    return name if lanes == 1 else f"{name}x{lanes}"


def dtype_info(spelling: Any) -> DTypeInfo:
    """Size and kind of a dtype in any spelling. Raises ValueError like `canonical_dtype`."""
    name = canonical_dtype(spelling)
    base, lanes = _split_lanes(name)
    scalar = DTYPES[base]
    return scalar if lanes == 1 else DTypeInfo(name, scalar.kind, scalar.bits, lanes)


def element_bits(spelling: Any) -> int:
    """Bits of one element of a dtype in any spelling: 16 for float16, 1 for bool.

    Raises ValueError like `canonical_dtype`.
    """
    return dtype_info(spelling).bits


def _text(spelling: Any) -> str:
    if isinstance(spelling, type):
        return _PYTHON_TYPES.get(spelling, spelling.__name__)
    # torch prints "torch.float16", numpy and tvm print "float16".
    return str(spelling).strip().removeprefix("torch.").removeprefix("T.").removeprefix("numpy.")


def _split_lanes(text: str) -> tuple[str, int]:
    match = re.fullmatch(r"(\w*?[a-z_]\w*?)x([1-9]\d*)", text)
    # torch names its packed dtype after what one byte holds; an element of it is half a byte.
    packed = text == "float4_e2m1fn_x2"
    if match is None or packed:
        return ("float4_e2m1fn" if packed else text), 1
    return match.group(1), int(match.group(2))


def _unknown(text: str, base: str) -> str:
    if _NOT_SUPPORTED.fullmatch(base):
        return f"dtype {text!r} is not supported; supported are {', '.join(DTYPES)}"
    near = difflib.get_close_matches(base, [*DTYPES, *ALIASES], n=1)
    if near:
        return f"unknown dtype {text!r}; did you mean {near[0]!r}?"
    return f"unknown dtype {text!r}; known are {', '.join(DTYPES)}"
