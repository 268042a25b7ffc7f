"""Floats of 8 bits and fewer that a language has no type for: a struct of their bits, and conversions in C.

The conversions are those of `targets.cpu.narrow_floats`: to the nearest, ties to even; what is too large
becomes the largest number (`satfinite` of PTX ISA 9.7.9.22, cvt).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilelang.arch.float_formats import FORMATS, FloatFormat
from tilelang.targets.emit.intrinsic import Intrinsic


def declaration(dtype: str) -> str:
    """The struct that stands for the dtype."""
    return f"struct {dtype} {{ unsigned char bits; }};"


def to_name(dtype: str) -> str:
    """The helper that rounds a float: `to_float8_e4m3fnuz`."""
    return f"to_{dtype}"


def from_name(dtype: str) -> str:
    """The helper that gives a float: `from_float8_e4m3fnuz`."""
    return f"from_{dtype}"


def literal(dtype: str, value: float) -> str:
    """A constant by its bits: `float8_e4m3fnuz{0x40}`."""
    return f"{dtype}{{0x{FORMATS[dtype].encode(value):02x}}}"


def _hex(number: int) -> str:
    return f"0x{number:x}u"


def _to(f: FloatFormat) -> Intrinsic:
    nan = f.largest_code if f.nan_code is None else f.nan_code
    head = f"""{f.name} {to_name(f.name)}(float x) {{
  unsigned bits = bit_cast<unsigned>(x), size = bits & 0x7fffffffu, code;
  if (size > 0x7f800000u) return {f.name}{{{_hex(nan)}}};  // NaN"""
    if not f.sign:
        body = f"""
  unsigned rest = size & 0x7fffffu;
  code = (size >> 23) + (rest > 0x400000u || (rest == 0x400000u && size >> 23) ? 1u : 0u);
  return {f.name}{{(unsigned char)(code > {_hex(f.largest_code)} ? {_hex(f.largest_code)} : code)}};
}}"""
        return Intrinsic(head + body, requires=("bit_cast",), types=(f.name,))
    shift = 23 - f.mantissa
    aligner = np.float32(2.0 ** (1 - f.bias - f.mantissa + 23))
    # Adding the power of two leaves a multiple of the smallest step in the low bits, rounded by the addition.
    sign = f"bits >> 31 << {f.exponent + f.mantissa}"
    signed = f"code ? code | {sign} : 0u" if f.specials == "fnuz" else f"code | {sign}"
    aligner_bits, first_normal = _hex(int(aligner.view(np.uint32))), _hex((1 - f.bias + 127) << 23)
    half, rebias = _hex((1 << (shift - 1)) - 1), _hex((127 - f.bias) << f.mantissa)
    body = f"""
  if (size < {first_normal})  // denormal: rounded by the addition
    code = bit_cast<unsigned>(bit_cast<float>(size) + {float(aligner)!r}f) - {aligner_bits};
  else
    code = ((size + (size >> {shift} & 1u) + {half}) >> {shift}) - {rebias};
  if (code > {_hex(f.largest_code)}) code = {_hex(f.largest_code)};
  return {f.name}{{(unsigned char)({signed})}};
}}"""
    return Intrinsic(head + body, requires=("bit_cast",), types=(f.name,))


def _from(f: FloatFormat) -> Intrinsic:
    head = f"float {from_name(f.name)}({f.name} x) {{\n  unsigned code = x.bits"
    if not f.sign:
        body = f""";
  return bit_cast<float>(code == {_hex(f.nan_code or 0)} ? 0x7fc00000u : code ? code << 23 : 0x400000u);
}}"""
        return Intrinsic(head + body, requires=("bit_cast",), types=(f.name,))
    bits = f.exponent + f.mantissa
    step = float(2.0 ** (1 - f.bias - f.mantissa))
    special = {
        "ieee": f"\n  if (size > {_hex(f.largest_code)}) "
        f"wide = size == {_hex(f.largest_code + 1)} ? 0x7f800000u : 0x7fc00000u;",
        "fn": f"\n  if (size > {_hex(f.largest_code)}) wide = 0x7fc00000u;",
        "fnuz": f"\n  if (code == {_hex(f.sign_bit)}) wide = 0x7fc00000u;",
        "finite": "",
    }[f.specials]
    body = f""", size = code & {_hex(f.magnitude_mask)};
  unsigned wide = size < {1 << f.mantissa}u ? bit_cast<unsigned>((float)size * {step!r}f)
                               : (size << {23 - f.mantissa}) + {_hex((127 - f.bias) << 23)};{special}
  return bit_cast<float>(wide | (code >> {bits} & 1u) << 31);
}}"""
    return Intrinsic(head + body, requires=("bit_cast",), types=(f.name,))


HELPERS: Mapping[str, Intrinsic] = {
    **{to_name(f.name): _to(f) for f in FORMATS.values()},
    **{from_name(f.name): _from(f) for f in FORMATS.values()},
}
