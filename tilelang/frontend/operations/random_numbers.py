"""T.rng_init, rng_rand, rng_rand_float: calls and distributions; the generators are in `generators/`."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Bound
from tilelang.frontend.operations.generators import mrg32k3a, philox, xorwow
from tilelang.frontend.operations.generators.code import Code, Generator, Start
from tilelang.frontend.operators import binary, cast
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import scalar
from tilelang.ir.values import Buffer, Unknown, as_int

_PHILOX = "curandStatePhilox4_32_10_t"
_GENERATORS: Mapping[str, Callable[[Code, Start], Generator]] = {
    _PHILOX: philox.begin,
    "curandStateXORWOW_t": xorwow.begin,
    "curandStateMRG32k3a_t": mrg32k3a.begin,
}
_NORMAL = "normal"


@dataclass(frozen=True)
class State:
    """The variables of a thread: its generator, and by width the second of two normal numbers, as bits."""

    generator: Generator
    kept: Mapping[int, Buffer]
    has_kept: Mapping[int, Buffer]


def random_call(run: Run, op: str, call: Bound) -> Any:
    """The value of one of the three functions; `rng_init` has none."""
    if op == "rng_init":
        return _init(run, call)
    if isinstance(run.random, Unknown):
        return run.random
    if run.random is None:
        what = "T.rng_init(seed) must come before it"
        return run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)
    code, generator = Code(run, call.span), run.random.generator
    if op == "rng_rand":
        return generator.word(code)
    bit, dist = call.value("bit", 32), call.value("dist", "uniform")
    if isinstance(bit, Unknown) or isinstance(dist, Unknown):
        return bit if isinstance(bit, Unknown) else dist
    if bit not in (32, 64):
        what = f"bit={bit!r} is not supported: random floats have 32 or 64 bits"
        return run.report(BAD_ARGUMENTS, call.span_of("bit"), callee=call.callee, what=what)
    if dist not in ("uniform", _NORMAL):
        what = f'dist is "uniform" or "normal", not {dist!r}'
        return run.report(BAD_ARGUMENTS, call.span_of("dist"), callee=call.callee, what=what)
    if dist == _NORMAL:
        return _normal(run.random, code, bit)
    return code.named("uniform", generator.unit(code) if bit == 32 else generator.unit_double(code))


def _init(run: Run, call: Bound) -> Any:
    # Until the state is made: numbers asked for are no follow-up error of what is wrong or unknown here.
    run.random = Unknown("the state of T.rng_init is not known")
    generator = call.value("generator", _PHILOX)
    if isinstance(generator, Unknown):
        return generator
    if generator not in _GENERATORS:
        what = f"there is no generator {generator!r}; there is {', '.join(map(repr, _GENERATORS))}"
        return run.report(BAD_ARGUMENTS, call.span_of("generator"), callee=call.callee, what=what)
    if run.launch is None:
        what = "stands outside `with T.Kernel(...)`"
        return run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)
    given = {name: call.value(name, default) for name, default in (("seed", 0), ("seq", None), ("off", 0))}
    values: dict[str, Any] = {}
    bits = 64
    for name, value in given.items():
        if name == "seq" and value is None:
            value, bits = _thread_of_grid(run)
        else:
            value = scalar(run, value, call.span_of(name) if name in call.arguments else call.span)
        if isinstance(value, Unknown):
            return value
        if not isinstance(value, ir.Expr | int) or isinstance(value, bool):
            what = f"`{name}` must be an integer"
            return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)
        values[name] = cast("uint64", value)
    code = Code(run, call.span)
    made = _GENERATORS[generator](code, Start(values["seed"], values["seq"], values["off"], bits))
    none = X.const(0, "int32")
    run.random = State(
        made,
        {n: code.variable(f"rng_kept_{n}", f"uint{n}", X.const(0, f"uint{n}")) for n in (32, 64)},
        {n: code.variable(f"rng_has_kept_{n}", "int32", none) for n in (32, 64)},
    )
    return None


def _thread_of_grid(run: Run) -> tuple[Any, int]:
    """The number of the thread among all of the grid, x fastest, blocks after one another; and its bits."""
    launch = run.launch
    assert launch is not None
    if launch.threads is None:
        return Unknown("the number of threads is not known"), 64
    number: Any = 0
    places = [
        *zip(launch.thread_vars, launch.threads, strict=True),
        *zip(launch.block_vars, launch.grid, strict=True),
    ]
    size: Any = 1
    for var, extent in places:
        if isinstance(extent, Unknown):
            return extent, 64
        number = binary(ast.Add, number, binary(ast.Mult, cast("uint64", var), cast("uint64", size)))
        size = binary(ast.Mult, size, cast("uint64", extent))
    extents = [as_int(extent) for _, extent in places]
    known = None if None in extents else math.prod(n for n in extents if n is not None)
    return number, 64 if known is None else max(1, (known - 1).bit_length())


def _normal(state: State, code: Code, bit: int) -> Any:
    """Normal numbers come in pairs (Box and Muller); the second one is kept: `curand_normal`."""
    dtype, bits = f"float{bit}", f"uint{bit}"
    kept, has_kept = state.kept[bit], state.has_kept[bit]
    value = code.variable("rng_normal", dtype, X.reinterpret(dtype, code.read(kept)))
    again = code.named("rng_again", X.NE(code.read(has_kept), X.const(0, "int32")))
    code.set(has_kept, X.Select(again, X.const(0, "int32"), X.const(1, "int32")))
    with code.branch(X.Not(again)):
        left, right = state.generator.pair(code, dtype)
        length = code.named("rng_length", X.sqrt(X.Mul(X.const(-2.0, dtype), X.log(left))))
        angle = code.named("rng_angle", X.Mul(right, X.const(2 * math.pi, dtype)))
        code.set(value, X.Mul(X.sin(angle), length))
        code.set(kept, X.reinterpret(bits, X.Mul(X.cos(angle), length)))
    return code.named("normal", code.read(value))
