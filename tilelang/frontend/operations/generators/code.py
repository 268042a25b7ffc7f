"""Statements that a generator of random numbers puts into a kernel: variables, loops and conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.span import Span
from tilelang.frontend.names import store_variable
from tilelang.frontend.run import Run
from tilelang.frontend.tensors import new_buffer
from tilelang.ir.tile_program import Alloc, Bind, For, If, Loop, Store
from tilelang.ir.values import Buffer


@dataclass(frozen=True)
class Code:
    """Where the statements go."""

    run: Run
    span: Span

    def variable(self, name: str, dtype: str, value: Any) -> Buffer:
        """A number of the thread that changes."""
        buffer = new_buffer(self.run, "local.var", (1,), dtype, self.span, fallback=name, init=value)
        self.run.emit(Alloc(buffer, self.span))
        return buffer

    def array(self, name: str, dtype: str, values: Sequence[Any]) -> Buffer:
        """Numbers of the thread, with these values at first."""
        buffer = new_buffer(self.run, "local", (len(values),), dtype, self.span, fallback=name)
        self.run.emit(Alloc(buffer, self.span))
        for k, value in enumerate(values):
            self.put(buffer, k, X.const(value, dtype) if isinstance(value, int) else value)
        return buffer

    def read(self, buffer: Buffer, index: Any = 0) -> Any:
        place = X.const(index, "int32") if isinstance(index, int) else index
        return X.BufferLoad(buffer.var, [place])

    def put(self, array: Buffer, index: Any, value: Any) -> None:
        place = X.const(index, "int32") if isinstance(index, int) else index
        self.run.emit(Store(array, (place,), value, self.span, self.run.context))

    def set(self, variable: Buffer, value: Any) -> None:
        store_variable(self.run, variable, value, self.span)

    def named(self, name: str, value: Any) -> ir.Var:
        """`value`, evaluated here."""
        var = self.run.fresh(name, str(value.ty))
        self.run.emit(Bind(var, value, self.span))
        return var

    @contextmanager
    def loop(self, extent: int, name: str, unrolled: bool = False) -> Iterator[ir.Var]:
        var = self.run.fresh(name)
        body: list[Any] = []
        kind = "unroll" if unrolled else "serial"
        self.run.emit(For(Loop(kind, (var,), (0,), (extent,), self.span), body))
        with self.run.nested(body):
            yield var

    @contextmanager
    def branch(self, condition: Any) -> Iterator[None]:
        body: list[Any] = []
        self.run.emit(If(condition, body, [], self.span))
        with self.run.nested(body):
            yield


@dataclass(frozen=True)
class Start:
    """Where a thread begins: numbers of 64 bits of the kernel.

    seq_bits: how many low bits of `seq` may be set.
    """

    seed: Any
    seq: Any
    off: Any
    seq_bits: int


class Generator(Protocol):
    """The state of a thread and what is read from it; each reading moves it on."""

    def word(self, code: Code) -> Any:
        """The next 32 random bits (uint32)."""
        ...

    def unit(self, code: Code) -> Any:
        """A float32 in (0, 1]."""
        ...

    def unit_double(self, code: Code) -> Any:
        """A float64 in (0, 1]."""
        ...

    def pair(self, code: Code, dtype: str) -> tuple[Any, Any]:
        """Two such numbers for one pair of normal ones, float32 or float64."""
        ...


STEP = 2.3283064e-10  # 2^-32 as cuRAND writes it for float32
STEP_DOUBLE = 2.3283064365386963e-10
_FINE = 1.1102230246251565e-16  # 2^-53


def unit_of(word: Any) -> Any:
    """A word in (0, 1], float32."""
    step, half = X.const(STEP, "float32"), X.const(STEP / 2, "float32")
    return X.Add(X.Mul(X.Cast("float32", word), step), half)


def unit_of_two(low: Any, high: Any) -> Any:
    """Two words in (0, 1], float64 of 53 random bits."""
    wide = X.shift_left(X.Cast("uint64", high), X.const(21, "uint64"))
    number = X.bitwise_xor(X.Cast("uint64", low), wide)
    step, half = X.const(_FINE, "float64"), X.const(_FINE / 2, "float64")
    return X.Add(X.Mul(X.Cast("float64", number), step), half)


def halves(value: Any) -> tuple[Any, Any]:
    """The lower and the upper word of a number of 64 bits."""
    number = known(value)
    if number is not None:  # TVM does not fold a constant that the conversion cuts
        return X.const(number % 2**32, "uint32"), X.const(number >> 32, "uint32")
    return X.Cast("uint32", value), X.Cast("uint32", X.shift_right(value, X.const(32, "uint64")))


def known(value: Any) -> int | None:
    """A number of 64 bits that is known at compile time."""
    while isinstance(value, X.Cast):
        value = value.value
    return int(value) % 2**64 if isinstance(value, X.IntImm) else None
