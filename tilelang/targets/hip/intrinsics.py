"""Device helpers of the HIP target: clang's AMDGPU builtins, which need no ROCm headers or libraries.

To add one, see `targets.emit.intrinsic`. The MFMA builtins and their register layouts are those of the "AMD
Instinct MI200" and "MI300 Instruction Set Architecture" guides, chapter "Matrix Arithmetic Instructions";
`layout.instruction` says which lane holds what.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilelang.targets.emit.intrinsic import Intrinsic
from tilelang.targets.emit.narrow_floats import HELPERS, to_name
from tilelang.targets.hip.atomics import ATOMICS
from tilelang.targets.hip.math import MATH
from tilelang.targets.hip.thread_ops import THREAD_OPS


def _mfma(
    builtin: str, operand: str, operand_type: str, accumulator: str, accumulator_type: str
) -> Intrinsic:
    """`d += a · b` on one wavefront; the operands' registers are vectors of `operand_type`."""
    name = builtin.removeprefix("__builtin_amdgcn_")
    return Intrinsic(
        f"""void {name}({accumulator}* d, const {operand}* a, const {operand}* b) {{
  *({accumulator_type}*)d = {builtin}(
      *(const {operand_type}*)a, *(const {operand_type}*)b, *(const {accumulator_type}*)d, 0, 0, 0);
}}""",
        types=(operand_type, accumulator_type),
    )


def _in_hardware(dtype: str) -> Intrinsic:
    """The helper that rounds a float to `dtype`, in hardware on gfx942 for its own 8-bit floats.

    CDNA3 ISA guide, V_CVT_PK_FP8_F32; it does not saturate.
    """
    software = HELPERS[to_name(dtype)]
    kind, largest = ("fp8", 240) if dtype == "float8_e4m3fnuz" else ("bf8", 57344)
    head, _, body = (software.source or "").partition("\n")
    text = f"""{head}
#ifdef __gfx942__
  float inside = x != x ? x : __builtin_amdgcn_fmed3f(x, -{largest}.0f, {largest}.0f);
  return {dtype}{{(unsigned char)__builtin_amdgcn_cvt_pk_{kind}_f32(inside, inside, 0, false)}};
#else
{body.removesuffix("}")}#endif
}}"""
    return replace(software, source=text)


# Half a byte in memory, `bit` 0 or 4: the rest of the word stays as other threads make it meanwhile.
_STORE_HALF = Intrinsic(
    """void store_half(unsigned char* at, int bit, unsigned char code) {
  unsigned long long address = reinterpret_cast<unsigned long long>(at);
  unsigned* word = reinterpret_cast<unsigned*>(address & ~3ull);
  int shift = int(address & 3) * 8 + bit;
  __hip_atomic_fetch_and(word, ~(15u << shift), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  __hip_atomic_fetch_or(word, unsigned(code) << shift, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}"""
)

INTRINSICS: Mapping[str, Intrinsic] = {
    "store_half": _STORE_HALF,
    **THREAD_OPS,
    **ATOMICS,
    "sync": Intrinsic(
        """void sync_threads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}"""
    ),
    "lane_id": Intrinsic(
        """int lane_id() {
  return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
}"""
    ),
    # The value that lane `lane ^ mask` holds.
    "shuffle_xor": Intrinsic(
        """template <typename T> T shuffle_xor(T value, int mask) {
  static_assert(sizeof(T) <= 4, "one register");
  int bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  bits = __builtin_amdgcn_ds_bpermute((lane_id() ^ mask) * 4, bits);
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}""",
        requires=("lane_id",),
    ),
    **{to_name(dtype): _in_hardware(dtype) for dtype in ("float8_e4m3fnuz", "float8_e5m2fnuz")},
    "maximum": Intrinsic("template <typename T> T maximum(T a, T b) {\n  return a > b ? a : b;\n}"),
    "minimum": Intrinsic("template <typename T> T minimum(T a, T b) {\n  return a < b ? a : b;\n}"),
    **MATH,
    "mfma_f32_16x16x16f16": _mfma(
        "__builtin_amdgcn_mfma_f32_16x16x16f16", "_Float16", "f16x4", "float", "f32x4"
    ),
    "mfma_f32_16x16x16bf16_1k": _mfma(
        "__builtin_amdgcn_mfma_f32_16x16x16bf16_1k", "__bf16", "i16x4", "float", "f32x4"
    ),
    "mfma_f32_16x16x4f32": _mfma("__builtin_amdgcn_mfma_f32_16x16x4f32", "float", "float", "float", "f32x4"),
    # gfx90a
    "mfma_i32_16x16x16i8": _mfma(
        "__builtin_amdgcn_mfma_i32_16x16x16i8", "signed char", "int", "int", "i32x4"
    ),
    # gfx942
    **{
        f"mfma_f32_16x16x32_{kind}_{kind}": _mfma(
            f"__builtin_amdgcn_mfma_f32_16x16x32_{kind}_{kind}", operand, "long", "float", "f32x4"
        )
        for kind, operand in (("fp8", "float8_e4m3fnuz"), ("bf8", "float8_e5m2fnuz"))
    },
    "mfma_i32_16x16x32_i8": _mfma(
        "__builtin_amdgcn_mfma_i32_16x16x32_i8", "signed char", "long", "int", "i32x4"
    ),
}
