"""Philox4x32-10 per thread (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3").

A thread's numbers are a function of (seed, sequence) and of how many came before, so that the state is one
counter: number n is word n % 4 of the block n // 4. cuRAND device API, `curandStatePhilox4_32_10_t`: the key
is the seed, the upper half of the counter the sequence.
"""

from __future__ import annotations

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
        return [_word(place, self, code) for place in places]


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


def _word(taken: Any, state: Philox, code: Code) -> Any:
    """Number `taken` of the sequence."""
    starts = [*halves(X.shift_right(taken, X.const(2, "uint64"))), *(code.read(b) for b in state.sequence)]
    x, y, z, w = (
        code.variable(f"rng_{letter}", "uint32", v) for letter, v in zip("xyzw", starts, strict=True)
    )
    key = [
        code.variable(name, "uint32", code.read(b))
        for name, b in zip(("rng_round_key_low", "rng_round_key_high"), state.key, strict=True)
    ]
    with code.loop(_ROUNDS, "rng_round", unrolled=True):
        p, q = (
            code.named(name, X.Mul(X.Cast("uint64", code.read(v)), X.const(factor, "uint64")))
            for name, v, factor in zip(("rng_p", "rng_q"), (x, z), _MULTIPLIERS, strict=True)
        )
        (low_p, high_p), (low_q, high_q) = halves(p), halves(q)
        code.set(x, X.bitwise_xor(X.bitwise_xor(high_q, code.read(y)), code.read(key[0])))
        code.set(y, low_q)
        code.set(z, X.bitwise_xor(X.bitwise_xor(high_p, code.read(w)), code.read(key[1])))
        code.set(w, low_p)
        for part, step in zip(key, _KEY_STEPS, strict=True):
            code.set(part, X.Add(code.read(part), X.const(step, "uint32")))
    place = code.named("rng_place", X.bitwise_and(X.Cast("uint32", taken), X.const(3, "uint32")))
    chosen: Any = code.read(w)
    for k, v in ((2, z), (1, y), (0, x)):
        chosen = X.Select(X.EQ(place, X.const(k, "uint32")), code.read(v), chosen)
    return code.named("rng_word", chosen)
