"""XORWOW per thread (Marsaglia, "Xorshift RNGs", section 3.1): five shifted words and a Weyl sequence.

cuRAND device API, `curandStateXORWOW_t`: sequences are 2^67 numbers apart. The step of the five words is
linear over GF(2), so that n steps are a polynomial in one step: x^n modulo the characteristic polynomial,
of degree 160. Those of the powers of two are computed here, once; a thread applies the ones of its bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx as X

from tilelang.frontend.operations.generators.code import Code, Start, halves, known, unit_of, unit_of_two
from tilelang.ir.values import Buffer

_WORDS, _WORD = 5, 32
_DEGREE = _WORDS * _WORD
_WEYL = 362437
_SEQUENCE = 67  # a sequence is 2^67 numbers
_ALL = 2**_WORD - 1


@dataclass(frozen=True)
class Xorwow:
    """The variables of a thread: the five words and the Weyl sequence."""

    words: Buffer
    weyl: Buffer

    def word(self, code: Code) -> Any:
        _step(code, self.words)
        code.set(self.weyl, X.Add(code.read(self.weyl), X.const(_WEYL, "uint32")))
        return code.named("rng_word", X.Add(code.read(self.words, _WORDS - 1), code.read(self.weyl)))

    def unit(self, code: Code) -> Any:
        return unit_of(self.word(code))

    def unit_double(self, code: Code) -> Any:
        low = self.word(code)
        return unit_of_two(low, self.word(code))

    def pair(self, code: Code, dtype: str) -> tuple[Any, Any]:
        read = self.unit if dtype == "float32" else self.unit_double
        first = read(code)
        return first, read(code)


def begin(code: Code, start: Start) -> Xorwow:
    """The state at `start`."""
    low, high = halves(start.seed)
    salted = (
        X.bitwise_xor(low, X.const(0xAAD26B49, "uint32")),
        X.bitwise_xor(high, X.const(0xF7DCEFDD, "uint32")),
    )
    factors = (1099087573, 2591861531)
    t = [code.named("rng_t", X.Mul(s, X.const(f, "uint32"))) for s, f in zip(salted, factors, strict=True)]

    def plus(value: int, k: int) -> Any:
        return X.Add(X.const(value, "uint32"), t[k])

    def mixed(value: int, k: int) -> Any:
        return X.bitwise_xor(X.const(value, "uint32"), t[k])

    first = [
        plus(123456789, 0),
        mixed(362436069, 0),
        plus(521288629, 1),
        mixed(88675123, 1),
        plus(5783321, 0),
    ]
    words = code.array("rng_words", "uint32", first)
    weyl = code.variable("rng_weyl", "uint32", X.Add(plus(6615241, 1), t[0]))
    _jump(code, words, start.seq, start.seq_bits, _SEQUENCE)
    _jump(code, words, start.off, 64, 0)
    if known(start.off) != 0:
        skipped = X.Mul(halves(start.off)[0], X.const(_WEYL, "uint32"))
        code.set(weyl, X.Add(code.read(weyl), skipped))
    return Xorwow(words, weyl)


def _step(code: Code, words: Buffer) -> None:
    """One step of the five words."""

    def shifted(kind: Callable[[Any, Any], Any], value: Any, by: int) -> Any:
        return X.bitwise_xor(value, kind(value, X.const(by, "uint32")))

    t = code.named("rng_t", shifted(X.shift_right, code.read(words, 0), 2))
    for k in range(_WORDS - 1):
        code.put(words, k, code.read(words, k + 1))
    last = code.read(words, _WORDS - 1)
    code.put(
        words,
        _WORDS - 1,
        X.bitwise_xor(shifted(X.shift_left, last, 4), shifted(X.shift_left, t, 1)),
    )


def _jump(code: Code, words: Buffer, count: Any, bits: int, scale: int) -> None:
    """`count` times 2^scale steps; `bits`: how many low bits of it may be set."""
    number = known(count)
    if number is not None:
        if number:
            table = code.array("rng_jump", "uint32", _split(_power(number << scale)))
            _apply(code, words, table, X.const(0, "int32"))
        return
    powers = [word for k in range(bits) for word in _split(_doubled(scale + k))]
    table = code.array("rng_jump", "uint32", powers)
    with code.loop(bits, "rng_bit") as bit:
        place = X.Cast("uint64", bit)
        one = X.bitwise_and(X.shift_right(count, place), X.const(1, "uint64"))
        with code.branch(X.NE(one, X.const(0, "uint64"))):
            _apply(code, words, table, X.Mul(bit, X.const(_WORDS, "int32")))


def _apply(code: Code, words: Buffer, table: Buffer, at: Any) -> None:
    """The polynomial in `table` from `at` on, of the step, on the five words."""
    total = code.array("rng_sum", "uint32", [0] * _WORDS)
    zero, one = X.const(0, "uint32"), X.const(1, "uint32")
    with code.loop(_DEGREE, "rng_term") as term:
        place = X.Add(X.floordiv(term, X.const(_WORD, "int32")), at)
        inside = X.Cast("uint32", X.floormod(term, X.const(_WORD, "int32")))
        bit = X.bitwise_and(X.shift_right(code.read(table, place), inside), one)
        mask = code.named("rng_mask", X.Sub(zero, bit))
        for k in range(_WORDS):
            part = X.bitwise_and(code.read(words, k), mask)
            code.put(total, k, X.bitwise_xor(code.read(total, k), part))
        _step(code, words)
    for k in range(_WORDS):
        code.put(words, k, code.read(total, k))


# Polynomials over GF(2), as integers: bit k is the coefficient of x^k


@functools.cache
def _characteristic() -> int:
    """The polynomial that the step of the five words satisfies: the shortest recurrence of any one bit
    (Berlekamp and Massey), which has the full degree because the period is 2^160 - 1.
    """
    words, bits = [1, 2, 3, 4, 5], []
    for _ in range(2 * _DEGREE):
        t = words[0] ^ words[0] >> 2
        last = words[-1]
        words = [*words[1:], (last ^ last << 4 ^ t ^ t << 1) & _ALL]
        bits.append(words[-1] & 1)
    return _shortest_recurrence(bits)


def _shortest_recurrence(bits: Sequence[int]) -> int:
    current, previous, length, gap = 1, 1, 0, 1
    window = 0  # bit j: the number j places back
    for n, bit in enumerate(bits):
        window = window << 1 | bit
        if (current & window & ((1 << length + 1) - 1)).bit_count() % 2 == 0:
            gap += 1
            continue
        before = current
        current ^= previous << gap
        if 2 * length <= n:
            previous, length, gap = before, n + 1 - length, 1
        else:
            gap += 1
    # Coefficients count backwards from the newest number: turned over they are the polynomial.
    return int(format(current, f"0{length + 1}b")[::-1], 2)


def _times(a: int, b: int) -> int:
    """The product modulo the characteristic polynomial."""
    modulus, product = _characteristic(), 0
    while b:
        if b & 1:
            product ^= a
        b >>= 1
        a <<= 1
        if a >> _DEGREE:
            a ^= modulus
    return product


@functools.cache
def _doubled(k: int) -> int:
    """x^(2^k)."""
    if k == 0:
        return 2
    half = _doubled(k - 1)
    return _times(half, half)


def _power(n: int) -> int:
    """x^n."""
    product, k = 1, 0
    while n >> k:
        if n >> k & 1:
            product = _times(product, _doubled(k))
        k += 1
    return product


def _split(polynomial: int) -> list[int]:
    return [polynomial >> _WORD * k & _ALL for k in range(_WORDS)]
