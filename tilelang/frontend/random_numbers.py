"""T.rng_init, rng_rand, rng_rand_float: Philox4x32-10 per thread, the numbers that cuRAND gives.

A thread's numbers are a function of (seed, sequence) and of how many came before, so that the state is one
counter: number n is word n % 4 of the block n // 4 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2,
3"; cuRAND device API, `curandStatePhilox4_32_10_t`: the key is the seed, the upper half of the counter the
sequence).
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Bound
from tilelang.frontend.names import store_variable
from tilelang.frontend.operators import binary, cast
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import scalar
from tilelang.frontend.tensors import new_buffer
from tilelang.ir.tile_program import Alloc, Bind
from tilelang.ir.values import Buffer, Unknown

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)  # the golden ratio and sqrt(3) - 1
_ROUNDS = 10
_GENERATOR = "curandStatePhilox4_32_10_t"
_STEP = 2.3283064e-10  # 2^-32 as cuRAND writes it
_NORMAL = "normal"


@dataclass(frozen=True)
class State:
    """The variables of a thread: numbers taken so far, key, sequence, the second of two normal numbers."""

    taken: Buffer
    key: tuple[Buffer, Buffer]
    sequence: tuple[Buffer, Buffer]
    kept: Buffer
    has_kept: Buffer


def random_call(run: Run, op: str, call: Bound) -> Any:
    """The value of one of the three functions; `rng_init` has none."""
    if op == "rng_init":
        return _init(run, call)
    if isinstance(run.random, Unknown):
        return run.random
    if run.random is None:
        what = "T.rng_init(seed) must come before it"
        return run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)
    if op == "rng_rand":
        return _next(run, run.random, call)
    bit, dist = call.value("bit", 32), call.value("dist", "uniform")
    if isinstance(bit, Unknown) or isinstance(dist, Unknown):
        return bit if isinstance(bit, Unknown) else dist
    if bit != 32:
        what = f"bit={bit!r} is not supported: random floats have 32 bits"
        return run.report(BAD_ARGUMENTS, call.span_of("bit"), callee=call.callee, what=what)
    if dist not in ("uniform", _NORMAL):
        what = f'dist is "uniform" or "normal", not {dist!r}'
        return run.report(BAD_ARGUMENTS, call.span_of("dist"), callee=call.callee, what=what)
    if dist == _NORMAL:
        return _normal(run, run.random, call)
    return _named(run, "uniform", _uniform(_next(run, run.random, call), 1.0), call)


def _init(run: Run, call: Bound) -> Any:
    # Until the state is made: numbers asked for are no follow-up error of what is wrong or unknown here.
    run.random = Unknown("the state of T.rng_init is not known")
    generator = call.value("generator", _GENERATOR)
    if generator != _GENERATOR and not isinstance(generator, Unknown):
        what = f"the generator {generator!r} is not supported; {_GENERATOR!r} is"
        return run.report(BAD_ARGUMENTS, call.span_of("generator"), callee=call.callee, what=what)
    if run.launch is None:
        what = "stands outside `with T.Kernel(...)`"
        return run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)
    given = {name: call.value(name, default) for name, default in (("seed", 0), ("seq", None), ("off", 0))}
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name == "seq" and value is None:
            value = _thread_of_grid(run)
        else:
            value = scalar(run, value, call.span_of(name) if name in call.arguments else call.span)
        if isinstance(value, Unknown):
            return value
        if not isinstance(value, ir.Expr | int) or isinstance(value, bool):
            what = f"`{name}` must be an integer"
            return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)
        values[name] = cast("uint64", value)
    variable = functools.partial(_variable, run, call)
    halves = {name: _halves(values[name]) for name in ("seed", "seq")}
    run.random = State(
        variable("rng_taken", "uint64", values["off"]),
        (
            variable("rng_key_low", "uint32", halves["seed"][0]),
            variable("rng_key_high", "uint32", halves["seed"][1]),
        ),
        (
            variable("rng_seq_low", "uint32", halves["seq"][0]),
            variable("rng_seq_high", "uint32", halves["seq"][1]),
        ),
        variable("rng_kept", "float32", X.const(0.0, "float32")),
        variable("rng_has_kept", "int32", X.const(0, "int32")),
    )
    return None


def _thread_of_grid(run: Run) -> Any:
    """The number of the thread among all of the grid, x fastest; blocks after one another."""
    launch = run.launch
    assert launch is not None
    if launch.threads is None:
        return Unknown("the number of threads is not known")
    number: Any = 0
    places = [
        *zip(launch.thread_vars, launch.threads, strict=True),
        *zip(launch.block_vars, launch.grid, strict=True),
    ]
    size: Any = 1
    for var, extent in places:
        if isinstance(extent, Unknown):
            return extent
        number = binary(ast.Add, number, binary(ast.Mult, cast("uint64", var), cast("uint64", size)))
        size = binary(ast.Mult, size, cast("uint64", extent))
    return number


def _variable(run: Run, call: Bound, name: str, dtype: str, value: Any) -> Buffer:
    buffer = new_buffer(run, "local.var", (1,), dtype, call.span, fallback=name)
    run.emit(Alloc(buffer, call.span))
    store_variable(run, buffer, value, call.span)
    return buffer


def _halves(value: Any) -> tuple[Any, Any]:
    return cast("uint32", value), cast("uint32", X.shift_right(value, X.const(32, "uint64")))


def _read(run: Run, buffer: Buffer, call: Bound) -> Any:
    return scalar(run, buffer, call.span)


def _named(run: Run, name: str, value: Any, call: Bound) -> ir.Var:
    var = run.fresh(name, str(value.ty))
    run.emit(Bind(var, value, call.span))
    return var


def _next(run: Run, state: State, call: Bound) -> Any:
    """The next number of 32 bits; the counter moves on."""
    name = functools.partial(_named, run, call=call)
    taken = name("rng_n", _read(run, state.taken, call))
    store_variable(run, state.taken, X.Add(taken, X.const(1, "uint64")), call.span)
    return _word(taken, state, name, lambda b: _read(run, b, call))


def _word(taken: Any, state: State, name: Callable[[str, Any], Any], read: Callable[[Buffer], Any]) -> Any:
    """Number `taken` of the sequence."""
    low, high = _halves(X.shift_right(taken, X.const(2, "uint64")))
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
        (low0, high0), (low1, high1) = (_halves(p) for p in products)
        first = X.bitwise_xor(X.bitwise_xor(high1, counter[1]), key[0])
        third = X.bitwise_xor(X.bitwise_xor(high0, counter[3]), key[1])
        counter = [
            name(f"rng_{letter}", v) for letter, v in zip("xyzw", (first, low1, third, low0), strict=True)
        ]
    place = name("rng_i", X.bitwise_and(cast("uint32", taken), X.const(3, "uint32")))
    chosen = counter[3]
    for k in (2, 1, 0):
        chosen = X.Select(X.EQ(place, X.const(k, "uint32")), counter[k], chosen)
    return name("rng_word", chosen)


def _uniform(word: Any, scale: float) -> Any:
    """In (0, scale]: `curand_uniform`."""
    step = X.const(_STEP * scale, "float32")
    half = X.const(_STEP * scale / 2, "float32")
    return X.Add(X.Mul(X.Cast("float32", word), step), half)


def _normal(run: Run, state: State, call: Bound) -> Any:
    """Normal numbers come in pairs (Box and Muller); the second one is kept: `curand_normal`."""
    name = functools.partial(_named, run, call=call)

    def read(buffer: Buffer) -> Any:
        return _read(run, buffer, call)

    one = X.const(1, "int32")
    again = name("rng_again", X.EQ(read(state.has_kept), one))
    taken = name("rng_n", read(state.taken))
    left = _word(taken, state, name, read)
    right = _word(name("rng_m", X.Add(taken, X.const(1, "uint64"))), state, name, read)
    length = name("rng_length", X.sqrt(X.Mul(X.const(-2.0, "float32"), X.log(_uniform(left, 1.0)))))
    angle = name("rng_angle", _uniform(right, 2 * math.pi))
    first, second = (X.Mul(f(angle), length) for f in (X.sin, X.cos))
    value = name("normal", X.Select(again, read(state.kept), first))
    store_variable(run, state.kept, second, call.span)
    store_variable(run, state.has_kept, X.Select(again, X.const(0, "int32"), one), call.span)
    moved = X.Add(taken, X.Select(again, X.const(0, "uint64"), X.const(2, "uint64")))
    store_variable(run, state.taken, moved, call.span)
    return value
