"""Philox4x32-10 per thread (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3").

A thread's numbers are a function of (seed, sequence) and of how many came before, so that the state is one
counter: number n is word n % 4 of the block n // 4. cuRAND device API, `curandStatePhilox4_32_10_t`: the key
is the seed, the upper half of the counter the sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx as X

from tilelang.frontend.operations.generators.code import (
    STEP_DOUBLE,
    Code,
    Start,
    halves,
    unit_of,
    unit_of_two,
)
from tilelang.ir.values import Buffer

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)  # the golden ratio and sqrt(3) - 1
_ROUNDS = 10


@dataclass(frozen=True)
class Philox:
    """The variables of a thread: numbers taken so far, key, sequence."""

    taken: Buffer
    key: tuple[Buffer, Buffer]
    sequence: tuple[Buffer, Buffer]

    def word(self, code: Code) -> Any:
        return self._words(code, 1)[0]

    def unit(self, code: Code) -> Any:
        return unit_of(self.word(code))

    def unit_double(self, code: Code) -> Any:
        step = X.const(STEP_DOUBLE, "float64")
        return X.Add(X.Mul(X.Cast("float64", self.word(code)), step), step)

    def pair(self, code: Code, dtype: str) -> tuple[Any, Any]:
        if dtype == "float32":
            left, right = self._words(code, 2)
            return unit_of(left), unit_of(right)
        a, b, c, d = self._words(code, 4)
        return unit_of_two(a, b), unit_of_two(c, d)

    def _words(self, code: Code, count: int) -> list[Any]:
        """The next `count` numbers; the counter moves on."""
        taken = code.named("rng_n", code.read(self.taken))
        code.set(self.taken, X.Add(taken, X.const(count, "uint64")))
        places = [taken, *(code.named("rng_m", X.Add(taken, X.const(k, "uint64"))) for k in range(1, count))]
        return [_word(place, self, code.named, code.read) for place in places]


def begin(code: Code, start: Start) -> Philox:
    """The state at `start`."""
    (key_low, key_high), (seq_low, seq_high) = halves(start.seed), halves(start.seq)
    return Philox(
        code.variable("rng_taken", "uint64", start.off),
        (
            code.variable("rng_key_low", "uint32", key_low),
            code.variable("rng_key_high", "uint32", key_high),
        ),
        (
            code.variable("rng_seq_low", "uint32", seq_low),
            code.variable("rng_seq_high", "uint32", seq_high),
        ),
    )


def _word(taken: Any, state: Philox, name: Callable[[str, Any], Any], read: Callable[[Buffer], Any]) -> Any:
    """Number `taken` of the sequence."""
    low, high = halves(X.shift_right(taken, X.const(2, "uint64")))
    counter = [name("rng_x", low), name("rng_y", high), *(name("rng_s", read(b)) for b in state.sequence)]
    key = [name("rng_k", read(b)) for b in state.key]
    for turn in range(_ROUNDS):
        if turn:
            key = [
                name("rng_k", X.Add(k, X.const(s, "uint32"))) for k, s in zip(key, _KEY_STEPS, strict=True)
            ]
        products = [
            name("rng_p", X.Mul(X.Cast("uint64", counter[2 * k]), X.const(_MULTIPLIERS[k], "uint64")))
            for k in (0, 1)
        ]
        (low0, high0), (low1, high1) = (halves(p) for p in products)
        first = X.bitwise_xor(X.bitwise_xor(high1, counter[1]), key[0])
        third = X.bitwise_xor(X.bitwise_xor(high0, counter[3]), key[1])
        counter = [
            name(f"rng_{letter}", v) for letter, v in zip("xyzw", (first, low1, third, low0), strict=True)
        ]
    place = name("rng_i", X.bitwise_and(X.Cast("uint32", taken), X.const(3, "uint32")))
    chosen = counter[3]
    for k in (2, 1, 0):
        chosen = X.Select(X.EQ(place, X.const(k, "uint32")), counter[k], chosen)
    return name("rng_word", chosen)
