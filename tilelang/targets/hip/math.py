"""Functions of float32 for HIP: no device library is linked, so what LLVM cannot lower is written out."""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.targets.emit.approximations import error_function, logarithm_of_1_plus
from tilelang.targets.emit.intrinsic import Intrinsic

MATH: Mapping[str, Intrinsic] = {
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
    "erf": error_function("__builtin_fabsf", "__builtin_copysignf", "__builtin_exp2f(-1.44269504f * square)"),
    "log1p": logarithm_of_1_plus("__builtin_isinf", "__builtin_logf"),
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
}
