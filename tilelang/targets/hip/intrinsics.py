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
    # No device library is linked, so what LLVM cannot lower is written out.
    "power": Intrinsic(
        """float power(float x, float y) {
  float magnitude = __builtin_exp2f(y * __builtin_log2f(__builtin_fabsf(x)));
  bool whole = __builtin_truncf(y) == y;
  bool odd = whole && __builtin_truncf(y * 0.5f) * 2.0f != y;
  if (y == 0.0f) return 1.0f;
  if (x < 0.0f && !whole) return __builtin_nanf("");
  return x < 0.0f && odd ? -magnitude : magnitude;
}"""
    ),
    "tanh": Intrinsic(
        """float hyperbolic_tangent(float x) {
  float size = __builtin_fabsf(x), square = x * x;
  if (size < 0.25f)  // Taylor series; the quotient below would cancel
    return x * (1.0f + square * (-0.333333333f + square * (0.133333333f + square * -0.0539682540f)));
  float e = __builtin_exp2f(-2.88539008f * size);  // exp(-2 |x|)
  return __builtin_copysignf((1.0f - e) / (1.0f + e), x);
}"""
    ),
    # Abramowitz and Stegun 7.1.26 (error 1.5e-7); near zero the Taylor series, which keeps the relative
    # error.
    "erf": Intrinsic(
        """float error_function(float x) {
  float size = __builtin_fabsf(x), square = x * x;
  if (size < 0.5f)
    return x * (1.12837917f + square * (-0.376126389f + square * (0.112837917f + square * (-0.0268661706f +
           square * (0.00522397762f + square * -0.000854832701f)))));
  float t = 1.0f / (1.0f + 0.3275911f * size);
  float sum = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f +
              t * (-1.453152027f + t * 1.061405429f))));
  return __builtin_copysignf(1.0f - sum * __builtin_exp2f(-1.44269504f * square), x);
}"""
    ),
    # Kahan: the error of 1 + x cancels in the quotient.
    "log1p": Intrinsic(
        """float logarithm_of_1_plus(float x) {
  float sum = 1.0f + x;
  return sum == 1.0f || __builtin_isinf(sum) ? x : __builtin_logf(sum) * (x / (sum - 1.0f));
}"""
    ),
    # The polynomials of asin, atan and sinh are those of Cephes (S. L. Moshier), error below 2.5e-7.
    "asin": Intrinsic(
        """float arc_sine(float x) {
  float size = __builtin_fabsf(x);
  bool large = size > 0.5f;
  float z = large ? 0.5f * (1.0f - size) : size * size;
  float r = large ? __builtin_sqrtf(z) : size;
  float p = ((((4.2163199048e-2f * z + 2.4181311049e-2f) * z + 4.5470025998e-2f) * z + 7.4953002686e-2f) * z +
             1.6666752422e-1f) * z * r + r;
  return __builtin_copysignf(large ? 1.57079633f - 2.0f * p : p, x);
}"""
    ),
    "acos": Intrinsic(
        """float arc_cosine(float x) {
  if (x > 0.5f) return 2.0f * arc_sine(__builtin_sqrtf(0.5f * (1.0f - x)));
  if (x < -0.5f) return 3.14159265f - 2.0f * arc_sine(__builtin_sqrtf(0.5f * (1.0f + x)));
  return 1.57079633f - arc_sine(x);
}""",
        requires=("asin",),
    ),
    "atan": Intrinsic(
        """float arc_tangent(float x) {
  float size = __builtin_fabsf(x);
  bool large = size > 2.41421356f, middle = size > 0.41421356f;
  float z = large ? -1.0f / size : middle ? (size - 1.0f) / (size + 1.0f) : size;
  float start = large ? 1.57079633f : middle ? 0.78539816f : 0.0f, q = z * z;
  float p = ((8.05374449538e-2f * q - 1.38776856032e-1f) * q + 1.99777106478e-1f) * q - 3.33329491539e-1f;
  return __builtin_copysignf(start + (p * q * z + z), x);
}"""
    ),
    "atan2": Intrinsic(
        """float arc_tangent_of_point(float y, float x) {
  if (x == 0.0f && y == 0.0f)
    return __builtin_copysignf(__builtin_copysignf(1.0f, x) < 0.0f ? 3.14159265f : 0.0f, y);
  bool both = __builtin_isinf(x) && __builtin_isinf(y);  // the quotient would be no number
  float quotient = both ? 1.0f : __builtin_fabsf(y) / __builtin_fabsf(x);
  float angle = arc_tangent(quotient);
  return __builtin_copysignf(x < 0.0f ? 3.14159265f - angle : angle, y);
}""",
        requires=("atan",),
    ),
    "sinh": Intrinsic(
        """float hyperbolic_sine(float x) {
  float size = __builtin_fabsf(x), z = x * x;
  if (size < 1.0f)
    return ((2.03721912945e-4f * z + 8.33028376239e-3f) * z + 1.66667160211e-1f) * z * x + x;
  float e = __builtin_expf(0.5f * size);  // half of it: the result may be finite where exp(x) is not
  return __builtin_copysignf(0.5f * e * e - 0.5f / (e * e), x);
}"""
    ),
    "cosh": Intrinsic(
        """float hyperbolic_cosine(float x) {
  float e = __builtin_expf(0.5f * __builtin_fabsf(x));
  return 0.5f * e * e + 0.5f / (e * e);
}"""
    ),
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
