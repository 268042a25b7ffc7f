"""Device helpers for 4-bit elements: half a byte in memory, and both numbers of a byte as 16-bit floats."""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.targets.emit.intrinsic import Intrinsic

# Half a byte in memory, `bit` 0 or 4: the rest of the word stays as other threads make it meanwhile.
_STORE_HALF = Intrinsic(
    """void store_half(unsigned char* at, int bit, unsigned char code) {
  unsigned long long address = reinterpret_cast<unsigned long long>(at);
  unsigned* word = reinterpret_cast<unsigned*>(address & ~3ull);
  int shift = int(address & 3) * 8 + bit;
  atomicAnd(word, ~(15u << shift));
  atomicOr(word, unsigned(code) << shift);
}"""
)
_TYPES = {
    "float16": ("half", "half2", "cuda_fp16.h"),
    "bfloat16": ("__nv_bfloat16", "__nv_bfloat162", "cuda_bf16.h"),
}
# The bits of a float4 at the top of a 16-bit float are its number times 2^(1 - bias of that float), denormal
# numbers included: (how far exponent and mantissa move, the bits of the factor back).
_FLOAT4 = {"float16": (9, 0x7400), "bfloat16": (6, 0x7E80)}
# An integer in the low bits of a float with this exponent is that float minus what the exponent stands for.
_EXPONENT = {"float16": 0x6400, "bfloat16": 0x4300}


def _both(number: int) -> str:
    return f"0x{number:04x}{number:04x}u"


def _decode_float4(to: str) -> Intrinsic:
    scalar, _, header = _TYPES[to]
    shift, factor = _FLOAT4[to]
    return Intrinsic(
        f"""{scalar} decode_float4_{to}(unsigned char code) {{
  unsigned short bits = (code & 7) << {shift} | (code & 8) << 12;
  return bit_cast<{scalar}>(bits) * bit_cast<{scalar}>((unsigned short)0x{factor:04x});
}}""",
        includes=(header,),
        requires=("bit_cast",),
    )


def _decode_pair(dtype: str, to: str) -> Intrinsic:
    """`x` has the first number in its lowest bits and the second one in bits 16 to 19."""
    _, pair, header = _TYPES[to]
    if dtype == "float4":
        shift, factor = _FLOAT4[to]
        bits = f"(x & 0x00070007u) << {shift} | (x & 0x00080008u) << 12"
        value = f"__hmul2(bit_cast<{pair}>(bits), bit_cast<{pair}>({_both(factor)}))"
    else:
        exponent, middle = _EXPONENT[to], 8 if dtype == "int4" else 0
        flipped = "((x & 0x000f000fu) ^ 0x00080008u)" if middle else "(x & 0x000f000fu)"
        bits = f"{flipped} | {_both(exponent)}"
        value = f"__hsub2(bit_cast<{pair}>(bits), bit_cast<{pair}>({_both(exponent + middle)}))"
    return Intrinsic(
        f"""void decode_{dtype}x2_{to}(void* to, unsigned char byte) {{
  unsigned x = byte | unsigned(byte) << 12, bits = {bits};
  *static_cast<{pair}*>(to) = {value};
}}""",
        includes=(header,),
        requires=("bit_cast",),
    )


PACKED_ELEMENTS: Mapping[str, Intrinsic] = {
    "store_half": _STORE_HALF,
    **{f"decode_float4_{to}": _decode_float4(to) for to in _TYPES},
    **{f"decode_{d}x2_{to}": _decode_pair(d, to) for d in ("float4", "int4", "uint4") for to in _TYPES},
}
