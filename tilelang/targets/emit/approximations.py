"""Functions of float32 that languages lack, written with those that they have."""

from __future__ import annotations

from tilelang.targets.emit.intrinsic import Intrinsic


def error_function(fabs: str, copysign: str, bell: str) -> Intrinsic:
    """erf: Abramowitz and Stegun 7.1.26 (error 1.5e-7); near zero the Taylor series, which keeps the relative
    error. `bell` is the expression exp(-square).
    """
    return Intrinsic(
        f"""float error_function(float x) {{
  float size = {fabs}(x), square = x * x;
  if (size < 0.5f)
    return x * (1.12837917f + square * (-0.376126389f + square * (0.112837917f + square * (-0.0268661706f +
           square * (0.00522397762f + square * -0.000854832701f)))));
  float t = 1.0f / (1.0f + 0.3275911f * size);
  float sum = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f +
              t * (-1.453152027f + t * 1.061405429f))));
  return {copysign}(1.0f - sum * {bell}, x);
}}"""
    )


def logarithm_of_1_plus(isinf: str, log: str) -> Intrinsic:
    """log1p, after Kahan: the error of 1 + x cancels in the quotient."""
    return Intrinsic(
        f"""float logarithm_of_1_plus(float x) {{
  float sum = 1.0f + x;
  return sum == 1.0f || {isinf}(sum) ? x : {log}(sum) * (x / (sum - 1.0f));
}}"""
    )
