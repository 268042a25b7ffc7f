"""Floats of 8 bits and fewer: how their bits are divided, their largest numbers, their infinities and NaNs.

Sources: OCP 8-bit Floating Point Specification (e4m3fn, e5m2), OCP Microscaling Formats (e8m0fnu, e3m2fn,
e2m3fn, e2m1fn), and, for the *fnuz* forms (no infinity, one NaN, no negative zero), the AMD CDNA3 ISA guide.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from typing import Literal

# ieee: the largest exponent holds infinity and NaN; fn: all ones are NaN, no infinity; fnuz: the sign alone
# is NaN; finite: neither.
Specials = Literal["ieee", "fn", "fnuz", "finite"]


@dataclass(frozen=True)
class FloatFormat:
    """`sign` bits (0 or 1), then `exponent` bits with `bias`, then `mantissa` bits."""

    name: str
    exponent: int
    mantissa: int
    bias: int
    specials: Specials
    sign: int = 1

    @property
    def bits(self) -> int:
        return self.sign + self.exponent + self.mantissa

    @property
    def magnitude_mask(self) -> int:
        """All bits but the sign."""
        return (1 << (self.exponent + self.mantissa)) - 1

    @property
    def sign_bit(self) -> int:
        return self.magnitude_mask + 1

    @property
    def largest_code(self) -> int:
        """The bits of the largest finite number."""
        if self.specials == "ieee":
            return (((1 << self.exponent) - 1) << self.mantissa) - 1
        return self.magnitude_mask - (1 if self.specials == "fn" else 0)

    @property
    def infinity_code(self) -> int | None:
        """The bits of positive infinity, None where there is none."""
        return self.largest_code + 1 if self.specials == "ieee" else None

    @property
    def nan_code(self) -> int | None:
        """The bits of the NaN that conversions give, None where there is none."""
        if self.specials == "finite":
            return None
        return self.sign_bit if self.specials == "fnuz" else self.magnitude_mask

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return self.value(self.largest_code)

    def value(self, code: int) -> float:
        """The number that the magnitude bits `code` stand for; infinities and NaNs not included."""
        exponent, mantissa = code >> self.mantissa, code & ((1 << self.mantissa) - 1)
        if not self.sign:  # e8m0fnu has no zero and no denormal numbers
            return 2.0 ** (exponent - self.bias)
        if exponent == 0:
            return mantissa * 2.0 ** (1 - self.bias - self.mantissa)
        return (1 + mantissa / (1 << self.mantissa)) * 2.0 ** (exponent - self.bias)

    def encode(self, value: float) -> int:
        """The bits of the nearest number, ties to even; what is too large becomes the largest number."""
        if math.isnan(value):
            return self.largest_code if self.nan_code is None else self.nan_code
        negative = math.copysign(1.0, value) < 0 and bool(self.sign)
        size = abs(value)
        if math.isinf(size):
            exact = self.infinity_code
            code = self.largest_code if exact is None else exact
        else:
            code = self._nearest(min(size, self.largest))
        if not negative or (code == 0 and self.specials == "fnuz"):
            return code
        return code | self.sign_bit

    def _nearest(self, size: float) -> int:
        codes = range(self.largest_code + 1)
        at = bisect.bisect_left(codes, size, key=self.value)
        if at == 0 or self.value(at) == size:
            return at
        below, above = size - self.value(at - 1), self.value(at) - size
        if below == above:
            return at if at % 2 == 0 else at - 1
        return at if above < below else at - 1

    def decode(self, code: int) -> float:
        """The number, infinity or NaN that the bits `code` stand for."""
        size, negative = code & self.magnitude_mask, bool(code & self.sign_bit)
        if self.specials == "fnuz" and code == self.sign_bit:
            return math.nan
        if size > self.largest_code:
            return math.copysign(math.inf, -1 if negative else 1) if size == self.infinity_code else math.nan
        return -self.value(size) if negative else self.value(size)

    def nearest(self, value: float) -> float:
        """`value` as this format holds it."""
        return self.decode(self.encode(value))


FORMATS: dict[str, FloatFormat] = {
    f.name: f
    for f in (
        FloatFormat("float8_e3m4", 3, 4, 3, "ieee"),
        FloatFormat("float8_e4m3b11fnuz", 4, 3, 11, "fnuz"),
        FloatFormat("float8_e4m3fn", 4, 3, 7, "fn"),
        FloatFormat("float8_e4m3fnuz", 4, 3, 8, "fnuz"),
        FloatFormat("float8_e5m2", 5, 2, 15, "ieee"),
        FloatFormat("float8_e5m2fnuz", 5, 2, 16, "fnuz"),
        FloatFormat("float8_e8m0fnu", 8, 0, 127, "fn", sign=0),
        FloatFormat("float6_e2m3fn", 2, 3, 1, "finite"),
        FloatFormat("float6_e3m2fn", 3, 2, 3, "finite"),
        FloatFormat("float4_e2m1fn", 2, 1, 1, "finite"),
    )
}


def float_format(dtype: str) -> FloatFormat | None:
    """The format of a narrow float (of the elements of a vector of them); None for any other dtype."""
    return FORMATS.get(dtype.partition("x")[0] if "x" in dtype else dtype)
