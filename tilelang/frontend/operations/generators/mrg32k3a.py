"""MRG32k3a per thread (L'Ecuyer 1999): two linear recurrences of three terms modulo primes near 2^32.

cuRAND device API, `curandStateMRG32k3a_t`: sequences are 2^76 numbers apart. n steps are the n-th power of a
matrix; where n is known it is computed here, else a thread squares the matrix along the bits of n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx as X

from tilelang.frontend.operations.generators.code import Code, Start, halves, known
from tilelang.ir.values import Buffer

_SIZE = 3
_SEQUENCE = 76  # a sequence is 2^76 numbers
_MODULI = (4294967087, 4294944443)
# The next number: `plus` times one of the last three less `minus` times another one.
_RECURRENCES = (((0, 1403580), 810728), ((1, 527612), 1370589))
_NORM = 2.3283065498378288e-10  # 1 / (the first modulus + 1)
_TO_BITS = 1.000000048662  # 2^32 - 1 over the first modulus

Matrix = list[list[int]]


@dataclass(frozen=True)
class Mrg32k3a:
    """The last three numbers of both recurrences, each in an array."""

    state: tuple[Buffer, Buffer]

    def word(self, code: Code) -> Any:
        scaled = X.Mul(self._number(code), X.const(_TO_BITS, "float64"))
        return code.named("rng_word", X.Cast("uint32", scaled))

    def unit(self, code: Code) -> Any:
        return code.named("rng_unit", X.Cast("float32", self.unit_double(code)))

    def unit_double(self, code: Code) -> Any:
        return code.named("rng_unit", X.Mul(self._number(code), X.const(_NORM, "float64")))

    def pair(self, code: Code, dtype: str) -> tuple[Any, Any]:
        read = self.unit if dtype == "float32" else self.unit_double
        first = read(code)
        return first, read(code)

    def _number(self, code: Code) -> Any:
        """The next number, 1 to the first modulus, as float64."""
        parts = []
        for terms, modulus, ((place, plus), minus) in zip(self.state, _MODULI, _RECURRENCES, strict=True):
            # Less `minus` times a number is `minus` times what it lacks of the modulus: nothing is negative.
            missing = X.Sub(X.const(modulus, "uint64"), code.read(terms, 0))
            product = X.Mul(X.const(plus, "uint64"), code.read(terms, place + 1))
            total = X.Add(product, X.Mul(X.const(minus, "uint64"), missing))
            new = code.named("rng_p", X.floormod(total, X.const(modulus, "uint64")))
            for k in range(_SIZE - 1):
                code.put(terms, k, code.read(terms, k + 1))
            code.put(terms, _SIZE - 1, new)
            parts.append(new)
        left, right = parts
        wrapped = X.Select(X.LE(left, right), X.const(_MODULI[0], "uint64"), X.const(0, "uint64"))
        return X.Cast("float64", X.Sub(X.Add(left, wrapped), right))


def begin(code: Code, start: Start) -> Mrg32k3a:
    """The state at `start`."""
    low, high = halves(start.seed)
    mixed = [
        code.named("rng_x", X.Cast("uint64", X.bitwise_xor(half, X.const(salt, "uint32"))))
        for half, salt in ((low, 0x55555555), (high, 0xAAAAAAAA))
    ]
    unseeded = X.EQ(start.seed, X.const(0, "uint64"))
    states = []
    for number, (name, modulus) in enumerate(zip(("rng_a", "rng_b"), _MODULI, strict=True)):
        first = X.const(12345, "uint64")
        terms = []
        for k in range(_SIZE):
            seeded = X.floormod(X.Mul(mixed[(number + k) % 2], first), X.const(modulus, "uint64"))
            terms.append(X.Select(unseeded, first, seeded))
        states.append(code.array(name, "uint64", terms))
    for terms, modulus, matrix in zip(states, _MODULI, _matrices(), strict=True):
        sequence = _power(matrix, 2**_SEQUENCE, modulus)
        _jump(code, terms, start.seq, start.seq_bits, sequence, modulus)
        _jump(code, terms, start.off, 64, matrix, modulus)
    return Mrg32k3a((states[0], states[1]))


def _jump(code: Code, terms: Buffer, count: Any, bits: int, matrix: Matrix, modulus: int) -> None:
    """The matrix to the power `count`, on the terms; `bits`: how many low bits of it may be set."""
    number = known(count)
    if number is not None:
        if number:
            flat = [n for row in _power(matrix, number, modulus) for n in row]
            _apply(code, terms, code.array("rng_jump", "uint64", flat), modulus)
        return
    power = code.array("rng_jump", "uint64", [n for row in matrix for n in row])
    with code.loop(bits, "rng_bit") as bit:
        one = X.bitwise_and(X.shift_right(count, X.Cast("uint64", bit)), X.const(1, "uint64"))
        with code.branch(X.NE(one, X.const(0, "uint64"))):
            _apply(code, terms, power, modulus)
        squared = [
            _product(code, power, i * _SIZE, 1, power, j, _SIZE, modulus)
            for i in range(_SIZE)
            for j in range(_SIZE)
        ]
        for k, value in enumerate(squared):
            code.put(power, k, value)


def _apply(code: Code, terms: Buffer, matrix: Buffer, modulus: int) -> None:
    """The product of the matrix and the terms."""
    new = [_product(code, matrix, i * _SIZE, 1, terms, 0, 1, modulus) for i in range(_SIZE)]
    for k, value in enumerate(new):
        code.put(terms, k, value)


def _product(
    code: Code, a: Buffer, a_at: int, a_step: int, b: Buffer, b_at: int, b_step: int, modulus: int
) -> Any:
    """The inner product of three numbers of each, evaluated here."""
    total: Any = None
    for k in range(_SIZE):
        pair = X.Mul(code.read(a, a_at + k * a_step), code.read(b, b_at + k * b_step))
        rest = X.floormod(pair, X.const(modulus, "uint64"))
        total = rest if total is None else X.Add(total, rest)
    return code.named("rng_p", X.floormod(total, X.const(modulus, "uint64")))


def _matrices() -> tuple[Matrix, Matrix]:
    """One step of both recurrences."""
    made: list[Matrix] = []
    for modulus, ((place, plus), minus) in zip(_MODULI, _RECURRENCES, strict=True):
        last = [modulus - minus, 0, 0]
        last[place + 1] = plus
        made.append([[0, 1, 0], [0, 0, 1], last])
    return made[0], made[1]


def _power(matrix: Matrix, n: int, modulus: int) -> Matrix:
    result: Matrix = [[int(i == j) for j in range(_SIZE)] for i in range(_SIZE)]
    while n:
        if n & 1:
            result = _times(matrix, result, modulus)
        matrix = _times(matrix, matrix, modulus)
        n >>= 1
    return result


def _times(a: Matrix, b: Matrix, modulus: int) -> Matrix:
    return [
        [sum(x * y for x, y in zip(row, column, strict=True)) % modulus for column in zip(*b, strict=True)]
        for row in a
    ]
